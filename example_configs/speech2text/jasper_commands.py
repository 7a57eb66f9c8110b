"""Jasper (Li et al. 2019, https://arxiv.org/abs/1904.03288) on spoken commands, with two-dimensional convolutions.

Published: test accuracies after 200 epochs on 8 GPUs of v1-12 96.2 %, v1-30 97.3 %, v2 95.1 %.

These settings are for one GPU.

Data: python scripts/prepare_speech_commands.py --data_dir=data/speech_commands_v1 --version=v1-12
Run:  python run.py --config_file=example_configs/speech2text/jasper_commands.py --mode=train_eval
"""
base_config = "../image2label/resnet_commands.py"
dataset_version = "v1-12"  # or v1-30, v2


def block(repeat, kernel_size, num_channels, dropout_keep_prob, stride=1, dilation=1, residual=False):
    return {"type": "conv2d", "repeat": repeat, "kernel_size": [kernel_size, 1], "stride": [stride, 1],
            "num_channels": num_channels, "padding": "SAME", "dilation": [dilation, 1],
            "dropout_keep_prob": dropout_keep_prob, "residual": residual}


base_params = {
    "batch_size_per_gpu": 64,
    "save_summaries_steps": 10000,
    "print_loss_steps": 10,
    "print_samples_steps": 1000,
    "eval_steps": 100,
    "save_checkpoint_steps": 10000,
    "logdir": "jasper_commands",
    "loss_scaling": "Backoff",
    "lr_policy_params": {"learning_rate": 0.05, "min_lr": 1e-5},
    "larc_params": {"larc_eta": 0.001},
    "initializer": "<drop>",
    "regularizer_params": {"scale": 0.001},

    "encoder": "TDNNEncoder",
    "encoder_params": {
        "convnet_layers": [
            block(1, 11, 256, 0.8, stride=2),
            *[block(3, 11, 256, 0.8, residual=True)] * 2,
            block(1, 13, 384, 0.8, stride=2),
            *[block(3, 13, 384, 0.8, residual=True)] * 2,
            block(1, 17, 512, 0.8, stride=2),
            *[block(3, 17, 512, 0.8, residual=True)] * 2,
            *[block(3, 21, 640, 0.7, residual=True)] * 2,
            *[block(3, 25, 768, 0.7, residual=True)] * 2,
            block(1, 29, 896, 0.6, dilation=2),
            block(1, 1, 1024, 0.6),
        ],
        "dropout_keep_prob": 0.7,
        "activation_fn": "relu",
        "initializer": "GlorotNormal",
    },
    "decoder": "FullyConnectedSCDecoder",
    "decoder_params": {"output_dim": {"v1-12": 12, "v1-30": 30, "v2": 35}[dataset_version]},
    "data_layer_params": {"num_audio_features": 128, "audio_length": 128, "model_format": "jasper"},
}

eval_params = {"batch_size_per_gpu": 16}
infer_params = {"batch_size_per_gpu": 16}
