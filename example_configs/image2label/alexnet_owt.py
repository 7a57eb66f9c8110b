"""AlexNet in the version "one weird trick" (Krizhevsky 2014, https://arxiv.org/abs/1404.5997), on ImageNet.

The published run used 4 GPUs in one process: set num_gpus to 4.
Data: data_root/imagenet, with TFRecord files or the folders train and val of JPEG files (docs/image-classification.md).
Run:  python run.py --config_file=example_configs/image2label/alexnet_owt.py --mode=train_eval
"""
from open_seq2seq.data import ImagenetDataLayer
from open_seq2seq.decoders import FullyConnectedDecoder
from open_seq2seq.encoders import CNNEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import Image2Label
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import poly_decay

base_model = Image2Label
data_root = "data/"
pool = ("max_pooling2d", {"pool_size": (3, 3), "strides": (2, 2)})


def conv(filters, kernel_size, **others):
    return ("conv2d", {"filters": filters, "kernel_size": kernel_size, "activation": "relu", **others})


base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 256,
    "num_epochs": 120,
    "random_seed": 0,
    "save_summaries_steps": 2000,
    "print_loss_steps": 100,
    "print_samples_steps": 2000,
    "eval_steps": 5000,
    "save_checkpoint_steps": 5000,
    "logdir": "alexnet_owt",
    "dtype": "float32",

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9},
    "lr_policy": poly_decay,
    "lr_policy_params": {"learning_rate": 0.04, "power": 1.0},
    "initializer": "VarianceScaling",
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 5e-4},

    "encoder": CNNEncoder,
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
    "decoder": FullyConnectedDecoder,
    "decoder_params": {"output_dim": 1000},
    "loss": CrossEntropyLoss,

    "data_layer": ImagenetDataLayer,
    "data_layer_params": {"data_dir": data_root + "imagenet", "image_size": 227, "num_classes": 1000},
}

train_params = {}
eval_params = {}
infer_params = {}
