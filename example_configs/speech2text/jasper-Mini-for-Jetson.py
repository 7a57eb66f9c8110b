"""Jasper Mini: separable convolutions for small devices.

Li et al. 2019, https://arxiv.org/abs/1904.03288; LibriSpeech, 960 hours. The published recipe ran on one GPU.

Run:  python run.py --config_file=example_configs/speech2text/jasper-Mini-for-Jetson.py --mode=train_eval
"""
base_config = "jasper10x5_LibriSpeech_nvgrad_masks.py"


def block(repeat, kernel_size, num_channels, stride=1, dilation=1, **others):
    return {"type": "sep_conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dilation": [dilation], **others}


base_params = {
    "num_epochs": 50,
    "logdir": "jasper-mini",
    "dtype": "float32",
    "loss_scaling": "<drop>",
    "encoder_params": {
        "convnet_layers": [
            block(1, 11, 256, stride=2),
            *[block(3, 11, 256, residual=True)] * 2,
            *[block(3, 13, 256, residual=True)] * 2,
            *[block(3, 17, 512, residual=True)] * 2,
            *[block(3, 21, 512, residual=True)] * 2,
            *[block(3, 25, 512, residual=True)] * 2,
            block(1, 29, 512, dilation=2),
            block(1, 1, 1024),
        ],
        "dropout_keep_prob": 1.0,
    },
}
