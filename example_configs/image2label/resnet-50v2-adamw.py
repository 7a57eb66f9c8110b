"""ResNet-50, version 2, on ImageNet with AdamW.

Published: top-1 76.36 %, top-5 93.01 %. The published run used 8 GPUs in one process: set num_gpus to 8.
Data: data_root/imagenet, with TFRecord files or the folders train and val of JPEG files (docs/image-classification.md).
Run:  python run.py --config_file=example_configs/image2label/resnet-50v2-adamw.py --mode=train_eval
"""
from open_seq2seq.data import ImagenetDataLayer
from open_seq2seq.decoders import FullyConnectedDecoder
from open_seq2seq.encoders import ResNetEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import Image2Label
from open_seq2seq.optimizers.lr_policies import cosine_decay

base_model = Image2Label
data_root = "data/"

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 128,
    "num_epochs": 100,
    "random_seed": 0,
    "save_summaries_steps": 2000,
    "print_loss_steps": 100,
    "print_samples_steps": 10000,
    "eval_steps": 5000,
    "save_checkpoint_steps": 50000,
    "logdir": "resnet-50v2-adamw",
    "dtype": "mixed",
    "loss_scaling": "Backoff",

    "optimizer": "AdamW",
    "optimizer_params": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.1},
    "lr_policy": cosine_decay,
    "lr_policy_params": {"learning_rate": 0.002},
    "initializer": "VarianceScaling",

    "encoder": ResNetEncoder,
    "encoder_params": {"resnet_size": 50, "version": 2, "regularize_bn": False},
    "decoder": FullyConnectedDecoder,
    "decoder_params": {"output_dim": 1000},
    "loss": CrossEntropyLoss,

    "data_layer": ImagenetDataLayer,
    "data_layer_params": {"data_dir": data_root + "imagenet", "image_size": 224, "num_classes": 1000},
}

train_params = {}
eval_params = {}
infer_params = {}
