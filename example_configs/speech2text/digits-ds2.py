"""Spoken digits: a small Deep Speech 2 that two CPU cores can train.

Run:  python run.py --config_file=example_configs/speech2text/digits-ds2.py --mode=train_eval
Time: 30 minutes on one core of an AMD EPYC without half-precision instructions
Score: word error rate 0.0 % on digits, 1.6 % on strings (docs/speech-recognition.md)
Test: as for digits-w2l.py
"""
base_config = "digits-w2l.py"

base_params = {
    "num_epochs": 12,
    "logdir": "digits-ds2",
    "lr_policy_params": {"learning_rate": 0.002, "warmup_steps": 200},
    "encoder": "DeepSpeech2Encoder",
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
}
