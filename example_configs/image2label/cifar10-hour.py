"""Seven convolutions for CIFAR-10, trained with Muon for about an hour on two CPU cores.

The network, and most of the recipe, are those of airbench94 (Jordan 2024, https://arxiv.org/abs/2404.00498): a first
layer that whitens patches of 2 × 2 pixels, and three groups of two convolutions. Evaluation averages the predictions
for each image and its mirror image. docs/image-classification.md has the accuracies of an earlier form; this one has
not been trained to the end.

Data: data_root/cifar-10-batches-bin, the unpacked binary files of CIFAR-10. For folders of JPEG or PNG files,
      see the end of cifar10-resnet20.py.
Run:  python run.py --config_file=example_configs/image2label/cifar10-hour.py --mode=train_eval
"""
base_config = "cifar10-resnet20.py"

norm, gelu = ("batch_normalization", {"momentum": 0.6, "epsilon": 1e-5}), ("gelu", {})


def pool(size):
    """A pooling of windows that do not overlap."""
    return ("max_pooling2d", {"pool_size": size, "strides": size})


def conv(filters):
    """A convolution of 3 × 3 pixels."""
    return ("conv2d", {"filters": filters, "kernel_size": 3, "padding": "SAME", "use_bias": False})


def group(filters):
    """Two convolutions and a pooling."""
    return [conv(filters), pool(2), norm, gelu, conv(filters), norm, gelu]


base_params = {
    "batch_size_per_gpu": 500,
    "num_epochs": 26,
    "eval_steps": 480,
    "save_checkpoint_steps": 480,
    "logdir": "cifar10-hour",
    "optimizer": "Muon",
    "optimizer_params": {"momentum": 0.6, "use_nesterov": True, "rms_rate": None, "adam_lr_ratio": 0.03,
                         "adam_beta2": 0.99},
    "decoupled_weight_decay": 0.1,
    "lr_policy": "poly_decay",
    "lr_policy_params": {"learning_rate": 0.1, "power": 1.0},
    "regularizer": "<drop>",
    "regularizer_params": "<drop>",
    "encoder": "CNNEncoder",
    "encoder_params": {
        "cnn_layers": [("whitening", {"kernel_size": 2}), gelu, *group(64), *group(256), *group(256), pool(3)],
    },
    "average_shifted": 1,
    "data_layer_params": {"standardize": "imagenet", "alternating_flip": True, "cutout": 8},
}
base_params["loss_params"] = {"label_smoothing": 0.2}
