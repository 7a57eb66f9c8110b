"""Deep Speech 2, large: five bidirectional GRU layers.

Amodei et al. 2015, https://arxiv.org/abs/1512.02595; LibriSpeech, 960 hours.
No result was published for this config.

Data: python scripts/import_librivox.py --output_dir=librispeech train-clean-100.tar.gz …
Run:  python run.py --config_file=example_configs/speech2text/ds2_large_8gpus.py --mode=train_eval

The published recipe ran on 8 GPUs with 16 utterances each; this config has
the same values but runs on one device. For several devices, start it with mpiexec or horovodrun and --use_horovod=True.
"""
from open_seq2seq.data import Speech2TextDataLayer
from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.encoders import DeepSpeech2Encoder
from open_seq2seq.losses import CTCLoss
from open_seq2seq.models import Speech2Text
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import poly_decay

base_model = Speech2Text
data_root = "librispeech/"

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 16,
    "num_epochs": 50,
    "random_seed": 0,
    "save_summaries_steps": 100,
    "print_loss_steps": 10,
    "print_samples_steps": 5000,
    "eval_steps": 5000,
    "save_checkpoint_steps": 1000,
    "logdir": "ds2_large",
    "dtype": "float32",

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9},
    "lr_policy": poly_decay,
    "lr_policy_params": {"learning_rate": 0.001, "power": 0.5},
    "larc_params": {"larc_eta": 0.001},
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 0.0005},
    "initializer": "GlorotUniform",

    "encoder": DeepSpeech2Encoder,
    "encoder_params": {
        "conv_layers": [
            {"kernel_size": [11, 41], "stride": [2, 2], "num_channels": 32, "padding": "SAME"},
            {"kernel_size": [11, 21], "stride": [1, 2], "num_channels": 32, "padding": "SAME"},
        ],
        "data_format": "channels_first",
        "num_rnn_layers": 5,
        "rnn_type": "cudnn_gru",
        "rnn_cell_dim": 800,
        "rnn_unidirectional": False,
        "use_cudnn_rnn": True,
        "row_conv": False,
        "n_hidden": 1600,
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
        "input_type": "spectrogram",
        "num_audio_features": 160,
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
        "augmentation": {"speed_perturbation_ratio": 0.05, "noise_level_min": -90, "noise_level_max": -60},
        "shuffle": True,
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
