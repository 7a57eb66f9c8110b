"""WaveNet on LJSpeech in mixed precision, with four clips instead of two in a batch.

Run:  python run.py --config_file=example_configs/text2speech/wavenet_mixed.py --mode=train_eval
"""
base_config = "wavenet_float.py"
base_params = {"batch_size_per_gpu": 4, "dtype": "mixed", "loss_scaling": "Backoff", "logdir": "wavenet-mixed"}
