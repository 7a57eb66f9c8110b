"""ResNet-50, version 2, on ImageNet with NovoGrad (Ginsburg et al. 2019, https://arxiv.org/abs/1905.11286).

Published: top-1 77.00 %, top-5 93.37 %; after 300 epochs 77.63 % and 93.73 %. The run used Horovod on 8 GPUs.

Run:  python run.py --config_file=example_configs/image2label/resnet-50v2-nvgrad.py --mode=train_eval
"""
base_config = "resnet-50-v2-mp.py"

base_params = {
    "print_samples_steps": 10000,
    "logdir": "resnet-50v2-nvgrad",
    "optimizer": "NovoGrad",
    # compat_no_ema: the published recipe used the norm of the current gradient instead of its moving average.
    "optimizer_params": {"beta1": 0.95, "beta2": 0.98, "epsilon": 1e-8, "weight_decay": 0.004,
                         "grad_averaging": False, "compat_no_ema": True},
    "lr_policy_params": {"learning_rate": 0.03},
    "regularizer": "<drop>",
}
