"""Jasper (Li et al. 2019, https://arxiv.org/abs/1904.03288) on spoken commands, with two-dimensional convolutions.

Published test accuracies: v1-12 96.2 %, v1-30 97.3 %, v2 95.1 %. The run used Horovod on 8 GPUs. Here, use_horovod is
False, so that the config also runs on one device; for several, start it with mpiexec or horovodrun and
--use_horovod=True.

Data: python scripts/prepare_speech_commands.py --data_dir=data/speech_commands_v1 --version=v1-12
Run:  python run.py --config_file=example_configs/speech2text/jasper_commands_8gpu.py --mode=train_eval
"""
from open_seq2seq.data import SpeechCommandsDataLayer
from open_seq2seq.decoders import FullyConnectedSCDecoder
from open_seq2seq.encoders import TDNNEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import Image2Label
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import poly_decay

base_model = Image2Label
dataset_version = "v1-12"  # or v1-30, v2
dataset_location = "data/speech_commands_v" + dataset_version[1]
num_labels = {"v1-12": 12, "v1-30": 30, "v2": 35}[dataset_version]


def block(repeat, kernel_size, num_channels, dropout_keep_prob, stride=1, dilation=1, residual=False):
    return {"type": "conv2d", "repeat": repeat, "kernel_size": [kernel_size, 1], "stride": [stride, 1],
            "num_channels": num_channels, "padding": "SAME", "dilation": [dilation, 1],
            "dropout_keep_prob": dropout_keep_prob, "residual": residual}


def lists(part):
    return {"data_layer_params": {"dataset_files": [f"{dataset_location}/{dataset_version}-{part}.txt"]}}


base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 64,
    "num_epochs": 200,
    "random_seed": 0,
    "save_summaries_steps": 10000,
    "print_loss_steps": 100,
    "print_samples_steps": 1000,
    "eval_steps": 1000,
    "save_checkpoint_steps": 10000,
    "logdir": "jasper_commands_8gpu",
    "dtype": "mixed",
    "loss_scaling": "Backoff",

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.95},
    "lr_policy": poly_decay,
    "lr_policy_params": {"learning_rate": 0.05, "min_lr": 1e-5, "power": 2.0},
    "larc_params": {"larc_eta": 0.001},
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 0.001},

    "encoder": TDNNEncoder,
    "encoder_params": {
        "convnet_layers": [
            block(1, 11, 256, 0.8, stride=2),
            block(3, 11, 256, 0.8, residual=True),
            block(3, 11, 256, 0.8, residual=True),
            block(1, 13, 384, 0.8, stride=2),
            block(3, 13, 384, 0.8, residual=True),
            block(3, 13, 384, 0.8, residual=True),
            block(1, 17, 512, 0.8, stride=2),
            block(3, 17, 512, 0.8, residual=True),
            block(3, 17, 512, 0.8, residual=True),
            block(3, 21, 640, 0.7, residual=True),
            block(3, 21, 640, 0.7, residual=True),
            block(3, 25, 768, 0.7, residual=True),
            block(3, 25, 768, 0.7, residual=True),
            block(1, 29, 896, 0.6, dilation=2),
            block(1, 1, 1024, 0.6),
        ],
        "dropout_keep_prob": 0.7,
        "activation_fn": "relu",
        "initializer": "GlorotNormal",
    },
    "decoder": FullyConnectedSCDecoder,
    "decoder_params": {"output_dim": num_labels},
    "loss": CrossEntropyLoss,

    "data_layer": SpeechCommandsDataLayer,
    "data_layer_params": {
        "dataset_location": dataset_location,
        "class_file": f"{dataset_location}/{dataset_version}-classes.txt",
        "num_audio_features": 128,
        "audio_length": 128,
        "num_labels": num_labels,
        "model_format": "jasper",
        "cache_data": True,
    },
}

train_params = lists("train")
train_params["data_layer_params"]["augment_data"] = True
eval_params = {"batch_size_per_gpu": 4, **lists("val")}
infer_params = {"batch_size_per_gpu": 4, **lists("test")}
