"""Tacotron 2 on LJSpeech in mixed precision, with 96 clips for each GPU.

Run:  python run.py --config_file=example_configs/text2speech/tacotron_mixed.py --mode=train_eval
"""
base_config = "tacotron_float.py"
base_params = {"batch_size_per_gpu": 96, "dtype": "mixed", "loss_scaling": "Backoff", "logdir": "tacotron-mixed"}
