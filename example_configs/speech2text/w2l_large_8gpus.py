"""Wave2Letter, whose convolutions have no stride.

No result was published for this config.

Run:  python run.py --config_file=example_configs/speech2text/w2l_large_8gpus.py --mode=train_eval
"""
base_config = "w2lplus_large_8gpus.py"


def block(repeat, kernel_size, num_channels, dropout_keep_prob):
    return {"type": "conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [1],
            "num_channels": num_channels, "padding": "SAME", "dilation": [1], "dropout_keep_prob": dropout_keep_prob}


base_params = {
    "logdir": "w2l",
    "encoder_params": {
        "convnet_layers": [
            block(3, 11, 256, 0.8),
            block(3, 13, 384, 0.8),
            block(3, 17, 512, 0.8),
            block(3, 21, 640, 0.7),
            block(3, 25, 768, 0.7),
            block(1, 29, 896, 0.6),
            block(1, 1, 1024, 0.6),
        ],
    },
}
