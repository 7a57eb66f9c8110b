"""Jasper 10x5 with plain residual connections.

Published: greedy WER 4.51 on dev-clean, 4.59 on test-clean after 400 epochs.

The configs behind this result and that of Jasper 10x3 are not among those last published; these follow the settings
given in the documentation.

Run:  python run.py --config_file=example_configs/speech2text/jasper10x5_LibriSpeech.py --mode=train_eval
"""
base_config = "jasper10x5_LibriSpeech_nvgrad.py"
residual_connections = {"residual": True}

base_params = {
    "logdir": "jasper10x5",
    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9},
    "lr_policy_params": {"learning_rate": 0.05, "min_lr": "<drop>"},
    "regularizer": "l2_regularizer",
    "regularizer_params": {"scale": 0.001},
}
