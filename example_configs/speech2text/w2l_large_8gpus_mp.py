"""Wave2Letter in mixed precision, with 64 utterances for each GPU.

Run:  python run.py --config_file=example_configs/speech2text/w2l_large_8gpus_mp.py --mode=train_eval
"""
base_config = "w2l_large_8gpus.py"
base_params = {"batch_size_per_gpu": 64, "dtype": "mixed", "loss_scaling": "Backoff"}
