"""ResNet-50, version 2, on ImageNet with AdamW.

Published: top-1 76.36 %, top-5 93.01 %.

The published run used 8 GPUs in one process: set num_gpus to 8.

Run:  python run.py --config_file=example_configs/image2label/resnet-50v2-adamw.py --mode=train_eval
"""
base_config = "resnet-50-v2-mp.py"

base_params = {
    "print_samples_steps": 10000,
    "save_checkpoint_steps": 50000,
    "logdir": "resnet-50v2-adamw",
    "optimizer": "AdamW",
    "optimizer_params": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.1},
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 0.002},
    "regularizer": "<drop>",
}
