"""QuartzNet 15x5: separable convolutions, trained with NovoGrad.

QuartzNet 15x5 (Kriman et al. 2019, https://arxiv.org/abs/1910.10261), LibriSpeech, 960 hours. Trained in
float32, because this model is known to diverge in float16.

Run:  python run.py --config_file=example_configs/speech2text/quartznet15x5_LibriSpeech.py --mode=train_eval
"""
base_config = "jasper10x5_LibriSpeech_nvgrad_masks.py"


def block(repeat, kernel_size, num_channels, stride=1, dilation=1, **others):
    return {"type": "sep_conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dilation": [dilation], **others}


base_params = {
    "logdir": "quartznet15x5",
    "dtype": "float32",
    "loss_scaling": "<drop>",
    "optimizer_params": {"beta2": 0.5},
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 0.01, "min_lr": 0.0, "warmup_steps": 1000},
    "larc_params": "<drop>",
    "encoder_params": {
        "convnet_layers": [
            block(1, 33, 256, stride=2),
            *[block(5, 33, 256, residual=True)] * 3,
            *[block(5, 39, 256, residual=True)] * 3,
            *[block(5, 51, 512, residual=True)] * 3,
            *[block(5, 63, 512, residual=True)] * 3,
            *[block(5, 75, 512, residual=True)] * 3,
            block(1, 87, 512, dilation=2, residual=True),
            block(1, 1, 1024, type="conv1d"),
        ],
        "dropout_keep_prob": 1.0,
    },
}
