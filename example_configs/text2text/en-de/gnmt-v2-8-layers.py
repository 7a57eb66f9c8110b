"""English to German, WMT: GNMT v2 as NVIDIA publishes it for PyTorch, with 8 layers.

Run:  python run.py --config_file=example_configs/text2text/en-de/gnmt-v2-8-layers.py --mode=train_eval
"""
base_config = "gnmt-v2-4-layers.py"
num_layers = encoder_layers = decoder_layers = 8
