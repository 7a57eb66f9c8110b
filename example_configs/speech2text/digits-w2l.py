"""Spoken digits: a small Wave2Letter+ that two CPU cores can train.

The Free Spoken Digit Dataset (github.com/Jakobovski/free-spoken-digit-dataset) has recordings at 8 kHz, about 0.4 s
each. Training uses single digits and strings of 2 to 7 digits, in which the varying context reduces overfitting.
Speed, noise and masks are drawn anew in each epoch. Features are normalised jointly, not one by one, because
the mean of a single feature over so short an utterance helps to distinguish vowels.

Data: python scripts/prepare_digits.py --data_dir=FOLDER --output_dir=digits
Run:  python run.py --config_file=example_configs/speech2text/digits-w2l.py --mode=train_eval
Test: the same with --mode=eval --eval_params/data_layer_params/dataset_files="['digits/test.csv']"
      or "['digits/strings-test.csv']"
"""
from open_seq2seq.data import Speech2TextDataLayer
from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.encoders import TDNNEncoder
from open_seq2seq.losses import CTCLoss
from open_seq2seq.models import Speech2Text
from open_seq2seq.optimizers.lr_policies import cosine_decay

base_model = Speech2Text
data_root = "digits/"


def block(repeat, kernel_size, num_channels, dropout_keep_prob, stride=1):
    return {"type": "conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dropout_keep_prob": dropout_keep_prob}


base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 24,
    "num_epochs": 16,
    "random_seed": 0,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": 500,
    "eval_steps": 500,
    "save_checkpoint_steps": 500,
    "num_checkpoints": 2,
    "best_metric": "Eval WER",
    "logdir": "digits-w2l",
    "dtype": "mixed",

    "optimizer": "AdamW",
    "optimizer_params": {"weight_decay": 0.05},
    "lr_policy": cosine_decay,
    "lr_policy_params": {"learning_rate": 0.004, "warmup_steps": 300},
    "max_grad_norm": 5.0,
    "ema_decay": 0.998,

    "encoder": TDNNEncoder,
    "encoder_params": {
        "convnet_layers": [
            block(1, 11, 64, 0.9, stride=2),
            block(2, 11, 96, 0.9),
            block(2, 13, 128, 0.8),
            block(1, 17, 192, 0.8),
            block(1, 1, 256, 0.7),
        ],
        "dropout_keep_prob": 0.8,
        "bn_momentum": 0.98,
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
        "sample_freq": 8000,
        "pad_to": 16,
        "dither": 1e-4,
        "vocab_file": data_root + "vocab.txt",
    },
}

train_params = {
    "data_layer_params": {
        "dataset_files": [data_root + "train.csv", data_root + "strings-train.csv"],
        "augmentation": {
            "speed_perturbation_ratio": 0.2,
            "noise_level_min": -80, "noise_level_max": -30,
            "n_freq_mask": 2, "width_freq_mask": 6,
            "n_time_mask": 1, "width_time_mask": 8,
        },
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
