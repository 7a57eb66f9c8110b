"""Jasper 10x5 with plain residual connections.

Li et al. 2019, https://arxiv.org/abs/1904.03288; LibriSpeech, 960 hours.
Published: greedy WER 4.51 on dev-clean, 4.59 on test-clean after 400 epochs.

Data: python scripts/import_librivox.py --output_dir=librispeech train-clean-100.tar.gz …
Run:  python run.py --config_file=example_configs/speech2text/jasper10x5_LibriSpeech.py --mode=train_eval

The configs behind these results are not among those last published; this config follows the settings given in the
documentation. They ran through Horovod (use_horovod True) on 8 GPUs with 32 utterances each; this config has
the same values but runs on one device. For several devices, start it with mpiexec or horovodrun and --use_horovod=True.
"""
from open_seq2seq.data import Speech2TextDataLayer
from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.encoders import TDNNEncoder
from open_seq2seq.losses import CTCLoss
from open_seq2seq.models import Speech2Text
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import poly_decay

base_model = Speech2Text
data_root = "librispeech/"
residual_connections = {"residual": True}


def block(repeat, kernel_size, num_channels, dropout_keep_prob, stride=1, dilation=1, **others):
    return {"type": "conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dilation": [dilation],
            "dropout_keep_prob": dropout_keep_prob, **others}


base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 32,
    "num_epochs": 400,
    "iter_size": 1,
    "random_seed": 0,
    "save_summaries_steps": 100,
    "print_loss_steps": 10,
    "print_samples_steps": 2200,
    "eval_steps": 2200,
    "save_checkpoint_steps": 1100,
    "num_checkpoints": 2,
    "logdir": "jasper10x5",
    "dtype": "mixed",
    "loss_scaling": "Backoff",

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9},
    "lr_policy": poly_decay,
    "lr_policy_params": {"learning_rate": 0.05, "power": 2.0},
    "larc_params": {"larc_eta": 0.001},
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 0.001},

    "encoder": TDNNEncoder,
    "encoder_params": {
        "convnet_layers": [
            block(1, 11, 256, 0.8, stride=2),
            block(5, 11, 256, 0.8, **residual_connections),
            block(5, 11, 256, 0.8, **residual_connections),
            block(5, 13, 384, 0.8, **residual_connections),
            block(5, 13, 384, 0.8, **residual_connections),
            block(5, 17, 512, 0.8, **residual_connections),
            block(5, 17, 512, 0.8, **residual_connections),
            block(5, 21, 640, 0.7, **residual_connections),
            block(5, 21, 640, 0.7, **residual_connections),
            block(5, 25, 768, 0.7, **residual_connections),
            block(5, 25, 768, 0.7, **residual_connections),
            block(1, 29, 896, 0.6, dilation=2),
            block(1, 1, 1024, 0.6),
        ],
        "dropout_keep_prob": 0.7,
        "activation_fn": "relu",
        "initializer": "GlorotNormal",
    },

    "decoder": FullyConnectedCTCDecoder,
    "decoder_params": {
        "initializer": "GlorotUniform",
        "use_language_model": False,
        "beam_width": 512,
    },

    "loss": CTCLoss,

    "data_layer": Speech2TextDataLayer,
    "data_layer_params": {
        "backend": "librosa",
        "input_type": "logfbank",
        "num_audio_features": 64,
        "norm_per_feature": True,
        "window": "hanning",
        "sample_freq": 16000,
        "pad_to": 16,
        "dither": 1e-5,
        "vocab_file": data_root + "vocab.txt",
    },
}

train_params = {
    "data_layer_params": {
        "dataset_files": [
            data_root + "librivox-train-clean-100.csv",
            data_root + "librivox-train-clean-360.csv",
            data_root + "librivox-train-other-500.csv",
        ],
        "max_duration": 16.7,
        "shuffle": True,
        "augmentation": {"speed_perturbation_ratio": [0.9, 1.0, 1.1]},
    },
}

eval_params = {
    "data_layer_params": {
        "dataset_files": [data_root + "librivox-dev-clean.csv"],
    },
}

infer_params = {
    "data_layer_params": {
        "dataset_files": [data_root + "librivox-test-clean.csv"],
    },
}
