"""Seven convolutions for CIFAR-10, trained with Muon in less than an hour on two CPU cores.

The network, and most of the recipe, are those of airbench94 (Jordan 2024, https://arxiv.org/abs/2404.00498): a first
convolution of 2 × 2 pixels, and three groups of two convolutions. Evaluation averages the predictions for each image
and its mirror image.

Data: data_root/cifar-10-batches-bin, the unpacked binary files of CIFAR-10. For folders of JPEG or PNG files,
      see the end of cifar10-resnet20.py.
Run:  python run.py --config_file=example_configs/image2label/cifar10-hour.py --mode=train_eval
Time: 45 minutes on two cores of an AMD EPYC with avx512_bf16
Score: accuracy 91.0 % on 5,000 test images, as JPEG files (docs/image-classification.md)
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
    "num_epochs": 22,
    "eval_steps": 96,
    "save_checkpoint_steps": 192,
    "logdir": "cifar10-hour",
    "optimizer": "Muon",
    "optimizer_params": {"momentum": 0.6, "use_nesterov": True, "rms_rate": None, "adam_lr_ratio": 0.03,
                         "adam_beta2": 0.99},
    "decoupled_weight_decay": 0.015,
    "lr_policy": "poly_decay",
    "lr_policy_params": {"learning_rate": 0.1, "power": 1.0},
    "regularizer": "<drop>",
    "encoder": "CNNEncoder",
    "encoder_params": {
        "cnn_layers": [("conv2d", {"filters": 24, "kernel_size": 2}), gelu, *group(64), *group(256), *group(256),
                       pool(3)],
    },
    "loss_params": {"label_smoothing": 0.2},
    "data_layer_params": {"crop_padding": 2, "standardize": "imagenet"},
}
