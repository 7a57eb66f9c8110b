"""Toy speech: a recogniser that learns a made-up language in about a minute.

For demonstrations and tests; nothing has to be downloaded.

Data: python scripts/create_toy_speech.py --output_dir=toy_speech_data --sample_freq=8000
Run:  python run.py --config_file=example_configs/speech2text/toy-w2l.py --mode=train_eval
Time: about a minute
"""
base_config = "digits-w2l.py"
data_dir = "toy_speech_data/"


def block(repeat, kernel_size, num_channels, dropout_keep_prob, stride=1):
    return {"type": "conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dilation": [1], "dropout_keep_prob": dropout_keep_prob}


base_params = {
    "batch_size_per_gpu": 16,
    "num_epochs": 12,
    "eval_steps": 100,
    "save_checkpoint_steps": 100,
    "logdir": "toy-w2l",
    "optimizer_params": {"weight_decay": 0.001},
    "lr_policy_params": {"warmup_steps": 50},
    "ema_decay": "<drop>",
    "encoder_params": {
        "convnet_layers": [
            block(1, 7, 64, 1.0, stride=2),
            block(2, 7, 64, 0.9),
            block(1, 1, 96, 0.9),
        ],
        "bn_momentum": "<drop>",
    },
    "data_layer_params": {"norm_per_feature": True, "dither": 1e-5},
}

train_params = {"data_layer_params": {"dataset_files": [data_dir + "train.csv"], "augmentation": "<drop>"}}
