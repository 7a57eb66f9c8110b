"""Jasper on spoken commands, with the number of epochs of the published run, which used Horovod on 8 GPUs.

For several devices, start it with mpiexec or horovodrun and --use_horovod=True.

Run:  python run.py --config_file=example_configs/speech2text/jasper_commands_8gpu.py --mode=train_eval
"""
base_config = "jasper_commands.py"
base_params = {"num_epochs": 200, "print_loss_steps": 100, "eval_steps": 1000, "logdir": "jasper_commands_8gpu"}
eval_params = {"batch_size_per_gpu": 4}
infer_params = {"batch_size_per_gpu": 4}
