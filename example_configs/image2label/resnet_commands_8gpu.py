"""ResNet-50 on spoken commands, as images of log mel spectrograms.

Published test accuracies: v1-12 96.6 %, v1-30 97.3 %, v2 95.9 %. The run used Horovod on 8 GPUs. Here, use_horovod is
False, so that the config also runs on one device; for several, start it with mpiexec or horovodrun and
--use_horovod=True.

Data: python scripts/prepare_speech_commands.py --data_dir=data/speech_commands_v1 --version=v1-12
Run:  python run.py --config_file=example_configs/image2label/resnet_commands_8gpu.py --mode=train_eval
"""
from open_seq2seq.data import SpeechCommandsDataLayer
from open_seq2seq.decoders import FullyConnectedDecoder
from open_seq2seq.encoders import ResNetEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import Image2Label
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import poly_decay

base_model = Image2Label
dataset_version = "v1-12"  # or v1-30, v2
dataset_location = "data/speech_commands_v" + dataset_version[1]
num_labels = {"v1-12": 12, "v1-30": 30, "v2": 35}[dataset_version]


def lists(part):
    return {"data_layer_params": {"dataset_files": [f"{dataset_location}/{dataset_version}-{part}.txt"]}}


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
    "logdir": "resnet_commands_8gpu",
    "dtype": "mixed",
    "loss_scaling": 512.0,

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.95},
    "lr_policy": poly_decay,
    "lr_policy_params": {"learning_rate": 0.2, "power": 2.0},
    "initializer": "VarianceScaling",
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 1e-4},

    "encoder": ResNetEncoder,
    "encoder_params": {"resnet_size": 50, "version": 2, "regularize_bn": False},
    "decoder": FullyConnectedDecoder,
    "decoder_params": {"output_dim": num_labels},
    "loss": CrossEntropyLoss,

    "data_layer": SpeechCommandsDataLayer,
    "data_layer_params": {
        "dataset_location": dataset_location,
        "class_file": f"{dataset_location}/{dataset_version}-classes.txt",
        "num_audio_features": 120,
        "audio_length": 120,
        "num_labels": num_labels,
        "model_format": "resnet",
        "cache_data": True,
    },
}

train_params = lists("train")
train_params["data_layer_params"]["augment_data"] = True
eval_params = {"batch_size_per_gpu": 32, **lists("val")}
infer_params = {"batch_size_per_gpu": 32, **lists("test")}
