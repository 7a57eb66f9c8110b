"""WaveNet on LJSpeech on eight GPUs in float32, with one clip for each GPU.

Run:  mpiexec -np 8 python run.py --config_file=example_configs/text2speech/wavenet_float_8gpu.py --mode=train_eval
"""
base_config = "wavenet_float.py"
base_params = {"use_horovod": True, "batch_size_per_gpu": 1, "logdir": "wavenet-float-8gpu"}
