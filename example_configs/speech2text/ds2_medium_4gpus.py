"""Deep Speech 2, medium: three forward GRU layers and a row convolution.

No result was published for this config. The published recipe ran on 4 GPUs with 32 utterances each.

Run:  python run.py --config_file=example_configs/speech2text/ds2_medium_4gpus.py --mode=train_eval
"""
base_config = "ds2_large_8gpus.py"

base_params = {
    "batch_size_per_gpu": 32,
    "save_summaries_steps": 1000,
    "print_samples_steps": 10000,
    "eval_steps": 10000,
    "logdir": "ds2_medium",
    "optimizer": "Adam",
    "lr_policy_params": {"learning_rate": 0.0002},
    "larc_params": "<drop>",
    "encoder_params": {
        "conv_layers": [
            {"kernel_size": [11, 41], "stride": [2, 2], "num_channels": 32, "padding": "SAME"},
            {"kernel_size": [11, 21], "stride": [1, 2], "num_channels": 64, "padding": "SAME"},
            {"kernel_size": [11, 21], "stride": [1, 2], "num_channels": 96, "padding": "SAME"},
        ],
        "num_rnn_layers": 3,
        "rnn_cell_dim": 1024,
        "rnn_unidirectional": True,
        "row_conv": True,
        "row_conv_width": 8,
        "n_hidden": 2048,
    },
}

train_params = {"data_layer_params": {"max_duration": "<drop>"}}
