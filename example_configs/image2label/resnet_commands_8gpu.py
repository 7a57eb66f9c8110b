"""ResNet-50 on spoken commands, with the number of epochs of the published run, which used Horovod on 8 GPUs.

For several devices, start it with mpiexec or horovodrun and --use_horovod=True.

Run:  python run.py --config_file=example_configs/image2label/resnet_commands_8gpu.py --mode=train_eval
"""
base_config = "resnet_commands.py"
base_params = {"num_epochs": 100, "logdir": "resnet_commands_8gpu"}
