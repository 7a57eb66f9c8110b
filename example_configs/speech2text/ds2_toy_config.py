"""A tiny Deep Speech 2 on toy speech, to check that the installation works.

Data: python scripts/create_toy_speech.py --output_dir=toy_speech_data
Run:  python run.py --config_file=example_configs/speech2text/ds2_toy_config.py --mode=train_eval

The published recipe ran on 2 GPUs with 8 utterances each.
"""
from open_seq2seq.data import Speech2TextDataLayer
from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.encoders import DeepSpeech2Encoder
from open_seq2seq.losses import CTCLoss
from open_seq2seq.models import Speech2Text
from open_seq2seq.optimizers.lr_policies import poly_decay

base_model = Speech2Text
data_root = "toy_speech_data/"

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 8,
    "max_steps": 1000,
    "random_seed": 0,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": 100,
    "eval_steps": 500,
    "save_checkpoint_steps": 500,
    "logdir": "ds2_toy",
    "dtype": "float32",

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9},
    "lr_policy": poly_decay,
    "lr_policy_params": {"learning_rate": 0.001, "power": 2.0},
    "larc_params": {"larc_eta": 0.001},

    "encoder": DeepSpeech2Encoder,
    "encoder_params": {
        "conv_layers": [
            {"kernel_size": [11, 41], "stride": [2, 2], "num_channels": 32, "padding": "SAME"},
            {"kernel_size": [11, 21], "stride": [1, 2], "num_channels": 64, "padding": "SAME"},
            {"kernel_size": [11, 21], "stride": [1, 2], "num_channels": 96, "padding": "SAME"},
        ],
        "data_format": "BFTC",
        "num_rnn_layers": 1,
        "rnn_type": "cudnn_gru",
        "rnn_cell_dim": 256,
        "rnn_unidirectional": False,
        "use_cudnn_rnn": True,
        "row_conv": False,
        "n_hidden": 256,
        "dropout_keep_prob": 1.0,
        "activation_fn": "relu20",
        "initializer": "GlorotNormal",
    },

    "decoder": FullyConnectedCTCDecoder,
    # The published alpha, 1.0, is for language models in base-10 logarithms; this one is for natural logarithms.
    "decoder_params": {"use_language_model": False, "beam_width": 64, "alpha": 0.43, "beta": 1.5},

    "loss": CTCLoss,

    "data_layer": Speech2TextDataLayer,
    "data_layer_params": {
        "backend": "psf",
        "input_type": "spectrogram",
        "num_audio_features": 160,
        "vocab_file": data_root + "vocab.txt",
    },
}

train_params = {"data_layer_params": {"dataset_files": [data_root + "train.csv"]}}

eval_params = {"data_layer_params": {"dataset_files": [data_root + "dev.csv"]}}

infer_params = {"data_layer_params": {"dataset_files": [data_root + "test.csv"]}}
