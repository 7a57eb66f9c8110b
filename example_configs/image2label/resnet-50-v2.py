"""ResNet-50, version 2 (He et al. 2016, https://arxiv.org/abs/1603.05027), on ImageNet in float32.

Published: top-1 76.38 %, top-5 93.08 %.

The published run used 8 GPUs in one process: set num_gpus to 8.
The other recipes for ImageNet are based on this one.

Data: data_root/imagenet, with TFRecord files or the folders train and val of JPEG files (docs/image-classification.md).
Run:  python run.py --config_file=example_configs/image2label/resnet-50-v2.py --mode=train_eval
"""
base_model = "Image2Label"
data_root = "data/"

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 32,
    "num_epochs": 100,
    "random_seed": 0,
    "save_summaries_steps": 2000,
    "print_loss_steps": 100,
    "print_samples_steps": 2000,
    "eval_steps": 5000,
    "save_checkpoint_steps": 5000,
    "logdir": "resnet-50-v2",
    "dtype": "float32",

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9},
    "lr_policy": "piecewise_constant",
    "lr_policy_params": {
        "learning_rate": 0.1,
        "boundaries": [30, 60, 80, 90],
        "decay_rates": [0.1, 0.01, 0.001, 1e-4],
    },
    "initializer": "VarianceScaling",
    "regularizer": "l2_regularizer",
    "regularizer_params": {"scale": 1e-4},

    "encoder": "ResNetEncoder",
    "encoder_params": {"resnet_size": 50, "version": 2, "regularize_bn": False},
    "decoder": "FullyConnectedDecoder",
    "decoder_params": {"output_dim": 1000},
    "loss": "CrossEntropyLoss",

    "data_layer": "ImagenetDataLayer",
    "data_layer_params": {"data_dir": data_root + "imagenet", "image_size": 224, "num_classes": 1000},
}

train_params = {}
eval_params = {}
infer_params = {}
