"""Toy speech: a recogniser that learns a made-up language in about a minute.

For demonstrations and tests; nothing has to be downloaded.

Data: python scripts/create_toy_speech.py --output_dir=toy_speech_data --sample_freq=8000
Run:  python run.py --config_file=example_configs/speech2text/toy-w2l.py --mode=train_eval
"""
from open_seq2seq.data import Speech2TextDataLayer
from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.encoders import TDNNEncoder
from open_seq2seq.losses import CTCLoss
from open_seq2seq.models import Speech2Text
from open_seq2seq.optimizers.lr_policies import cosine_decay

base_model = Speech2Text
data_root = "toy_speech_data/"


def block(repeat, kernel_size, num_channels, dropout_keep_prob, stride=1, dilation=1):
    return {"type": "conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dilation": [dilation],
            "dropout_keep_prob": dropout_keep_prob}


base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 16,
    "num_epochs": 12,
    "random_seed": 0,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": 500,
    "eval_steps": 100,
    "save_checkpoint_steps": 100,
    "num_checkpoints": 2,
    "best_metric": "Eval WER",
    "logdir": "toy-w2l",
    "dtype": "mixed",

    "optimizer": "AdamW",
    "optimizer_params": {"weight_decay": 0.001},
    "lr_policy": cosine_decay,
    "lr_policy_params": {"learning_rate": 0.004, "warmup_steps": 50},
    "max_grad_norm": 5.0,

    "encoder": TDNNEncoder,
    "encoder_params": {
        "convnet_layers": [
            block(1, 7, 64, 1.0, stride=2),
            block(2, 7, 64, 0.9),
            block(1, 1, 96, 0.9),
        ],
        "dropout_keep_prob": 0.8,
        "activation_fn": "relu",
        "initializer": "GlorotNormal",
    },

    "decoder": FullyConnectedCTCDecoder,
    "loss": CTCLoss,

    "data_layer": Speech2TextDataLayer,
    "data_layer_params": {
        "backend": "librosa",
        "input_type": "logfbank",
        "num_audio_features": 40,
        "norm_per_feature": True,
        "sample_freq": 8000,
        "pad_to": 16,
        "dither": 1e-5,
        "vocab_file": data_root + "vocab.txt",
    },
}

train_params = {
    "data_layer_params": {
        "dataset_files": [data_root + "train.csv"],
    },
}

eval_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {
        "dataset_files": [data_root + "dev.csv"],
    },
}

infer_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {
        "dataset_files": [data_root + "test.csv"],
    },
}
