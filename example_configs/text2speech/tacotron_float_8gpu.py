"""Tacotron 2 on LJSpeech on eight GPUs: fewer steps, and the rate decays earlier.

Run:  mpiexec -np 8 python run.py --config_file=example_configs/text2speech/tacotron_float_8gpu.py --mode=train_eval
"""
base_config = "tacotron_float.py"
base_params = {
    "use_horovod": True,
    "max_steps": 40000,
    "lr_policy_params": {"begin_decay_at": 20000, "decay_steps": 10000},
    "logdir": "tacotron-float-8gpu",
}
