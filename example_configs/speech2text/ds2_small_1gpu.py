"""Deep Speech 2, small: two bidirectional GRU layers, LibriSpeech, 460 hours.

No result was published for this config. The published recipe ran on one GPU with 32 utterances.

Run:  python run.py --config_file=example_configs/speech2text/ds2_small_1gpu.py --mode=train_eval
"""
base_config = "ds2_large_8gpus.py"
train_sets = ["train-clean-100", "train-clean-360"]

base_params = {
    "batch_size_per_gpu": 32,
    "num_epochs": 12,
    "logdir": "ds2_small",
    "optimizer": "Adam",
    "lr_policy": "exp_decay",
    "lr_policy_params": {"learning_rate": 0.0001, "begin_decay_at": 0, "decay_steps": 5000, "decay_rate": 0.9,
                         "use_staircase_decay": True, "min_lr": 0.0},
    "larc_params": "<drop>",
    "encoder_params": {"num_rnn_layers": 2, "rnn_cell_dim": 512, "n_hidden": 1024},
    "data_layer_params": {"num_audio_features": 96},
}

train_params = {"data_layer_params": {"max_duration": "<drop>"}}
