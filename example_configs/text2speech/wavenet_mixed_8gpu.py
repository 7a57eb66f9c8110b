"""WaveNet on LJSpeech on eight GPUs in mixed precision, with two clips for each GPU.

Run:  mpiexec -np 8 python run.py --config_file=example_configs/text2speech/wavenet_mixed_8gpu.py --mode=train_eval
"""
base_config = "wavenet_float_8gpu.py"
base_params = {"batch_size_per_gpu": 2, "dtype": "mixed", "loss_scaling": "Backoff", "logdir": "wavenet-mixed-8gpu"}
