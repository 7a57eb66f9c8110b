"""A small network of two forward LSTM layers, in mixed precision.

Amodei et al. 2015, https://arxiv.org/abs/1512.02595; LibriSpeech, 460 hours.
No result was published for this config.

Data: python scripts/import_librivox.py --output_dir=librispeech train-clean-100.tar.gz …
Run:  python run.py --config_file=example_configs/speech2text/lstm_small_1gpu.py --mode=train_eval

The published recipe ran on one GPU with 64 utterances.
"""
from open_seq2seq.data import Speech2TextDataLayer
from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.encoders import DeepSpeech2Encoder
from open_seq2seq.losses import CTCLoss
from open_seq2seq.models import Speech2Text
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import exp_decay

base_model = Speech2Text
data_root = "librispeech/"

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 64,
    "num_epochs": 50,
    "random_seed": 0,
    "save_summaries_steps": 100,
    "print_loss_steps": 50,
    "print_samples_steps": 250,
    "eval_steps": 250,
    "save_checkpoint_steps": 250,
    "logdir": "lstm_small",
    "dtype": "mixed",
    "loss_scaling": "Backoff",

    "optimizer": "Adam",
    "lr_policy": exp_decay,
    "lr_policy_params": {"learning_rate": 0.001, "begin_decay_at": 0, "decay_steps": 500, "decay_rate": 0.9,
                         "use_staircase_decay": True, "min_lr": 1e-8},
    "max_grad_norm": 0.25,
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 0.0005},
    "initializer": "GlorotUniform",

    "encoder": DeepSpeech2Encoder,
    "encoder_params": {
        "conv_layers": [],
        "data_format": "channels_first",
        "num_rnn_layers": 2,
        "rnn_type": "cudnn_lstm",
        "rnn_cell_dim": 512,
        "rnn_unidirectional": True,
        "use_cudnn_rnn": True,
        "row_conv": False,
        "n_hidden": 512,
        "dropout_keep_prob": 0.5,
        "activation_fn": "relu",
    },

    "decoder": FullyConnectedCTCDecoder,
    "decoder_params": {
        "use_language_model": False,
        "beam_width": 512,
        # The published value, 2.0, is for language models in base-10 logarithms; this one is for natural logarithms.
        "alpha": 0.87,
        "beta": 1.0,
    },

    "loss": CTCLoss,

    "data_layer": Speech2TextDataLayer,
    "data_layer_params": {
        "backend": "psf",
        "input_type": "mfcc",
        "num_audio_features": 13,
        "vocab_file": data_root + "vocab.txt",
    },
}

train_params = {
    "data_layer_params": {
        "dataset_files": [
            data_root + "librivox-train-clean-100.csv",
            data_root + "librivox-train-clean-360.csv",
        ],
        "max_duration": 16.7,
        "augmentation": {"speed_perturbation_ratio": 0.05, "noise_level_min": -90, "noise_level_max": -60},
        "shuffle": True,
    },
}

eval_params = {
    "data_layer_params": {
        "dataset_files": [data_root + "librivox-dev-clean.csv"],
        "cache_features": True,
        "cache_format": "hdf5",
    },
}

infer_params = {
    "data_layer_params": {
        "dataset_files": [data_root + "librivox-test-clean.csv"],
    },
}
