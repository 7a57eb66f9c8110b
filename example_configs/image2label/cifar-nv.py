"""A network of eight convolutions for CIFAR-10.

Data: data_root/cifar-10-batches-bin, the unpacked binary files of CIFAR-10.
Run:  python run.py --config_file=example_configs/image2label/cifar-nv.py --mode=train_eval
"""
base_config = "resnet-50-v2.py"
data_root = "data/"
pool = ("max_pooling2d", {"pool_size": (3, 3), "strides": (2, 2), "padding": "SAME"})


def conv(filters, size, **others):
    return ("conv2d", {"filters": filters, "kernel_size": (size, size), "padding": "SAME", "activation": "relu",
                       **others})


def normalized(filters, size):
    return [conv(filters, size, activation=None, use_bias=False),
            ("batch_normalization", {"momentum": 0.9, "epsilon": 1e-4}), ("relu", {})]


base_params = {
    "num_epochs": 200,
    "logdir": "cifar-nv",
    "lr_policy": "poly_decay",
    "lr_policy_params": {"learning_rate": 0.001, "power": 1.0},
    "regularizer_params": {"scale": 2e-4},

    "encoder": "CNNEncoder",
    "encoder_params": {
        "cnn_layers": [
            conv(128, 3),
            conv(128, 3),
            *normalized(128, 3),
            pool,
            conv(256, 3),
            conv(256, 3),
            *normalized(256, 3),
            pool,
            conv(320, 3),
            conv(320, 1),
        ],
    },
    "decoder_params": {"output_dim": 10},
    "data_layer": "CifarDataLayer",
    "data_layer_params": {"data_dir": data_root + "cifar-10-batches-bin", "image_size": 28},
}
