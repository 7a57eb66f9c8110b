"""ResNet-50, version 2, on ImageNet in mixed precision.

The published run used Horovod on 8 GPUs. Here, use_horovod is False, so that the config also runs on one device;
for several, start it with mpiexec or horovodrun and --use_horovod=True.

Run:  python run.py --config_file=example_configs/image2label/resnet-50-v2-mp.py --mode=train_eval
"""
base_config = "resnet-50-v2.py"

base_params = {
    "batch_size_per_gpu": 128,
    "logdir": "resnet-50-v2-mp",
    "dtype": "mixed",
    "loss_scaling": "Backoff",
    "lr_policy": "poly_decay",
    "lr_policy_params": {"learning_rate": 0.4, "power": 2.0},
}
