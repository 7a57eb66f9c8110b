"""Deep Speech 2, large: five bidirectional GRU layers.

Amodei et al. 2015, https://arxiv.org/abs/1512.02595; LibriSpeech, 960 hours.
No result was published for this config. The published recipe ran on 8 GPUs with 16 utterances each.

Run:  python run.py --config_file=example_configs/speech2text/ds2_large_8gpus.py --mode=train_eval
"""
base_config = "w2lplus_large_8gpus.py"

base_params = {
    "batch_size_per_gpu": 16,
    "num_epochs": 50,
    "iter_size": "<drop>",
    "print_samples_steps": 5000,
    "eval_steps": 5000,
    "save_checkpoint_steps": 1000,
    "num_checkpoints": "<drop>",
    "logdir": "ds2_large",
    "lr_policy_params": {"learning_rate": 0.001, "power": 0.5},
    "regularizer_params": {"scale": 0.0005},
    "initializer": "GlorotUniform",

    "encoder": "DeepSpeech2Encoder",
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
    "decoder_params": {"initializer": "<drop>", "beta": 1.0},
    "data_layer_params": {"input_type": "spectrogram", "num_audio_features": 160},
}

train_params = {
    "data_layer_params": {
        "augmentation": {"speed_perturbation_ratio": 0.05, "noise_level_min": -90, "noise_level_max": -60},
    },
}
