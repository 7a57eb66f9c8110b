"""Jasper DR 10x5: dense residual connections, trained with NovoGrad.

Li et al. 2019, https://arxiv.org/abs/1904.03288; LibriSpeech, 960 hours. About 333 million
parameters.

Published: greedy WER 4.23 on dev-clean after 400 epochs.

Run:  python run.py --config_file=example_configs/speech2text/jasper10x5_LibriSpeech_nvgrad.py --mode=train_eval
"""
base_config = "w2lplus_large_8gpus.py"
repeat = 5
residual_connections = {"residual": True, "residual_dense": True}


def block(repeat, kernel_size, num_channels, dropout_keep_prob, stride=1, dilation=1, **others):
    return {"type": "conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dilation": [dilation],
            "dropout_keep_prob": dropout_keep_prob, **others}


base_params = {
    "num_epochs": 400,
    "num_checkpoints": 2,
    "logdir": "jasper10x5_dr",
    "dtype": "mixed",
    "loss_scaling": "Backoff",

    "optimizer": "NovoGrad",
    # compat_no_ema: the published recipe used the norm of the current gradient instead of its moving average.
    "optimizer_params": {"beta1": 0.95, "beta2": 0.98, "epsilon": 1e-8, "weight_decay": 0.001,
                         "grad_averaging": False, "compat_no_ema": True},
    "lr_policy_params": {"learning_rate": 0.02, "min_lr": 1e-5},
    "regularizer": "<drop>",

    "encoder_params": {
        "convnet_layers": [
            block(1, 11, 256, 0.8, stride=2),
            block(repeat, 11, 256, 0.8, **residual_connections),
            block(repeat, 11, 256, 0.8, **residual_connections),
            block(repeat, 13, 384, 0.8, **residual_connections),
            block(repeat, 13, 384, 0.8, **residual_connections),
            block(repeat, 17, 512, 0.8, **residual_connections),
            block(repeat, 17, 512, 0.8, **residual_connections),
            block(repeat, 21, 640, 0.7, **residual_connections),
            block(repeat, 21, 640, 0.7, **residual_connections),
            block(repeat, 25, 768, 0.7, **residual_connections),
            block(repeat, 25, 768, 0.7, **residual_connections),
            block(1, 29, 896, 0.6, dilation=2),
            block(1, 1, 1024, 0.6),
        ],
        "activation_fn": "relu",
    },
    "decoder_params": {"alpha": "<drop>", "beta": "<drop>"},

    "data_layer_params": {
        "backend": "librosa",
        "norm_per_feature": True,
        "window": "hanning",
        "sample_freq": 16000,
        "pad_to": 16,
        "dither": 1e-5,
    },
}

train_params = {"data_layer_params": {"augmentation": {"speed_perturbation_ratio": [0.9, 1.0, 1.1]}}}
