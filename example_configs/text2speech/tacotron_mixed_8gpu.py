"""Tacotron 2 on LJSpeech on eight GPUs in mixed precision, with 96 clips for each GPU.

Run:  mpiexec -np 8 python run.py --config_file=example_configs/text2speech/tacotron_mixed_8gpu.py --mode=train_eval
"""
base_config = "tacotron_float_8gpu.py"
base_params = {"batch_size_per_gpu": 96, "dtype": "mixed", "loss_scaling": "Backoff", "logdir": "tacotron-mixed-8gpu"}
