"""Wave2Letter+.

Wave2Letter with batch norm, a stride of 2 and a dilation
(Collobert et al. 2016, https://arxiv.org/abs/1609.03193), LibriSpeech, 960 hours.
Published: greedy WER 6.67 on dev-clean, 6.58 on test-clean.

Data: python scripts/import_librivox.py --output_dir=librispeech train-clean-100.tar.gz …
Run:  python run.py --config_file=example_configs/speech2text/w2lplus_large_8gpus.py --mode=train_eval

The published recipe ran through Horovod (use_horovod True) on 8 GPUs with 32 utterances each; this config has
the same values but runs on one device. For several devices, start it with mpiexec or horovodrun and --use_horovod=True.
The other recipes for LibriSpeech are based on this one.
"""
from open_seq2seq.parts.activations import relu20

base_model = "Speech2Text"
data_root = "librispeech/"
train_sets = ["train-clean-100", "train-clean-360", "train-other-500"]


def block(repeat, kernel_size, num_channels, dropout_keep_prob, stride=1, dilation=1):
    return {"type": "conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dilation": [dilation],
            "dropout_keep_prob": dropout_keep_prob}


base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 32,
    "num_epochs": 200,
    "iter_size": 1,
    "random_seed": 0,
    "save_summaries_steps": 100,
    "print_loss_steps": 10,
    "print_samples_steps": 2200,
    "eval_steps": 2200,
    "save_checkpoint_steps": 1100,
    "num_checkpoints": 5,
    "logdir": "w2lplus",
    "dtype": "float32",

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9},
    "lr_policy": "poly_decay",
    "lr_policy_params": {"learning_rate": 0.05, "power": 2.0},
    "larc_params": {"larc_eta": 0.001},
    "regularizer": "l2_regularizer",
    "regularizer_params": {"scale": 0.001},

    "encoder": "TDNNEncoder",
    "encoder_params": {
        "convnet_layers": [
            block(1, 11, 256, 0.8, stride=2),
            block(3, 11, 256, 0.8),
            block(3, 13, 384, 0.8),
            block(3, 17, 512, 0.8),
            block(3, 21, 640, 0.7),
            block(3, 25, 768, 0.7),
            block(1, 29, 896, 0.6, dilation=2),
            block(1, 1, 1024, 0.6),
        ],
        "dropout_keep_prob": 0.7,
        "activation_fn": relu20,
        "initializer": "GlorotNormal",
    },

    "decoder": "FullyConnectedCTCDecoder",
    "decoder_params": {
        "initializer": "GlorotUniform",
        "use_language_model": False,
        "beam_width": 512,
        # The published value, 2.0, is for language models in base-10 logarithms; this one is for natural logarithms.
        "alpha": 0.87,
        "beta": 1.5,
    },

    "loss": "CTCLoss",

    "data_layer": "Speech2TextDataLayer",
    "data_layer_params": {
        "backend": "psf",
        "input_type": "logfbank",
        "num_audio_features": 64,
        "vocab_file": data_root + "vocab.txt",
    },
}

train_params = {
    "data_layer_params": {
        "dataset_files": [f"{data_root}librivox-{name}.csv" for name in train_sets],
        "max_duration": 16.7,
        "shuffle": True,
    },
}

eval_params = {"data_layer_params": {"dataset_files": [data_root + "librivox-dev-clean.csv"]}}
infer_params = {"data_layer_params": {"dataset_files": [data_root + "librivox-test-clean.csv"]}}
