"""AlexNet in the version "one weird trick" (Krizhevsky 2014, https://arxiv.org/abs/1404.5997), on ImageNet.

The published run used 4 GPUs in one process: set num_gpus to 4.

Run:  python run.py --config_file=example_configs/image2label/alexnet_owt.py --mode=train_eval
"""
base_config = "resnet-50-v2.py"
pool = ("max_pooling2d", {"pool_size": (3, 3), "strides": (2, 2)})


def conv(filters, kernel_size, **others):
    return ("conv2d", {"filters": filters, "kernel_size": kernel_size, "activation": "relu", **others})


base_params = {
    "batch_size_per_gpu": 256,
    "num_epochs": 120,
    "logdir": "alexnet_owt",
    "lr_policy": "poly_decay",
    "lr_policy_params": {"learning_rate": 0.04, "power": 1.0},
    "regularizer_params": {"scale": 5e-4},

    "encoder": "CNNEncoder",
    "encoder_params": {
        "cnn_layers": [
            conv(64, (11, 11), strides=(4, 4), padding="VALID"),
            pool,
            conv(192, (5, 5), padding="SAME"),
            pool,
            conv(384, (3, 3), padding="SAME"),
            conv(256, (3, 3), padding="SAME"),
            conv(256, (3, 3), padding="SAME"),
            pool,
        ],
        "fc_layers": [
            ("dense", {"units": 4096, "activation": "relu"}),
            ("dropout", {"rate": 0.5}),
            ("dense", {"units": 4096, "activation": "relu"}),
            ("dropout", {"rate": 0.5}),
        ],
    },
    "data_layer_params": {"image_size": 227},
}
