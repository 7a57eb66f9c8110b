"""A network of eight convolutions for CIFAR-10.

Data: data_root/cifar-10-batches-bin, the unpacked binary files of CIFAR-10.
Run:  python run.py --config_file=example_configs/image2label/cifar-nv.py --mode=train_eval
"""
from open_seq2seq.data import CifarDataLayer
from open_seq2seq.decoders import FullyConnectedDecoder
from open_seq2seq.encoders import CNNEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import Image2Label
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import poly_decay

base_model = Image2Label
data_root = "data/"


def conv(filters, size, **others):
    return ("conv2d", {"filters": filters, "kernel_size": (size, size), "padding": "SAME", "activation": "relu",
                       **others})


def normalized(filters, size):
    return [conv(filters, size, activation=None, use_bias=False),
            ("batch_normalization", {"momentum": 0.9, "epsilon": 1e-4}), ("relu", {})]


pool = ("max_pooling2d", {"pool_size": (3, 3), "strides": (2, 2), "padding": "SAME"})

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 32,
    "num_epochs": 200,
    "random_seed": 0,
    "save_summaries_steps": 2000,
    "print_loss_steps": 100,
    "print_samples_steps": 2000,
    "eval_steps": 5000,
    "save_checkpoint_steps": 5000,
    "logdir": "cifar-nv",
    "dtype": "float32",

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9},
    "lr_policy": poly_decay,
    "lr_policy_params": {"learning_rate": 0.001, "power": 1.0},
    "initializer": "VarianceScaling",
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 2e-4},

    "encoder": CNNEncoder,
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
    "decoder": FullyConnectedDecoder,
    "decoder_params": {"output_dim": 10},
    "loss": CrossEntropyLoss,

    "data_layer": CifarDataLayer,
    "data_layer_params": {"data_dir": data_root + "cifar-10-batches-bin", "image_size": 28},
}

train_params = {}
eval_params = {}
infer_params = {}
