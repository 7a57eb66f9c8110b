"""Spoken digits: a small Deep Speech 2 that two CPU cores can train.

The Free Spoken Digit Dataset (github.com/Jakobovski/free-spoken-digit-dataset) has recordings at 8 kHz, about 0.4 s
each. Training uses single digits and strings of 2 to 7 digits. Speed, noise and masks are drawn anew in each epoch.
Features are normalised jointly, as in ``digits-w2l.py``.

Data: python scripts/prepare_digits.py --data_dir=FOLDER --output_dir=digits
Run:  python run.py --config_file=example_configs/speech2text/digits-ds2.py --mode=train_eval
Test: the same with --mode=eval --eval_params/data_layer_params/dataset_files="['digits/test.csv']"
      or "['digits/strings-test.csv']"
"""
from open_seq2seq.data import Speech2TextDataLayer
from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.encoders import DeepSpeech2Encoder
from open_seq2seq.losses import CTCLoss
from open_seq2seq.models import Speech2Text
from open_seq2seq.optimizers.lr_policies import cosine_decay

base_model = Speech2Text
data_root = "digits/"

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 24,
    "num_epochs": 12,
    "random_seed": 0,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": 500,
    "eval_steps": 500,
    "save_checkpoint_steps": 500,
    "num_checkpoints": 2,
    "best_metric": "Eval WER",
    "logdir": "digits-ds2",
    "dtype": "mixed",

    "optimizer": "AdamW",
    "optimizer_params": {"weight_decay": 0.05},
    "lr_policy": cosine_decay,
    "lr_policy_params": {"learning_rate": 0.002, "warmup_steps": 200},
    "max_grad_norm": 5.0,
    "ema_decay": 0.998,

    "encoder": DeepSpeech2Encoder,
    "encoder_params": {
        "conv_layers": [
            {"kernel_size": [11, 11], "stride": [2, 2], "num_channels": 16, "padding": "SAME"},
            {"kernel_size": [7, 7], "stride": [1, 2], "num_channels": 24, "padding": "SAME"},
        ],
        "num_rnn_layers": 2,
        "rnn_type": "cudnn_gru",
        "rnn_cell_dim": 160,
        "rnn_unidirectional": False,
        "use_cudnn_rnn": True,
        "row_conv": False,
        "n_hidden": 256,
        "dropout_keep_prob": 0.7,
        "activation_fn": "relu",
        "bn_momentum": 0.9,
        "initializer": "GlorotUniform",
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
