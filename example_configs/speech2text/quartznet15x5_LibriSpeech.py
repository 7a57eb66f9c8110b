"""QuartzNet 15x5: separable convolutions, trained with NovoGrad.

QuartzNet 15x5 (Kriman et al. 2019, https://arxiv.org/abs/1910.10261), LibriSpeech, 960 hours. Trained in
float32, because this model is known to diverge in float16.

Data: python scripts/import_librivox.py --output_dir=librispeech train-clean-100.tar.gz …
Run:  python run.py --config_file=example_configs/speech2text/quartznet15x5_LibriSpeech.py --mode=train_eval

The published recipe ran through Horovod (use_horovod True) on 8 GPUs with 32 utterances each; this config has
the same values but runs on one device. For several devices, start it with mpiexec or horovodrun and --use_horovod=True.
"""
from open_seq2seq.data import Speech2TextDataLayer
from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.encoders import TDNNEncoder
from open_seq2seq.losses import CTCLoss
from open_seq2seq.models import Speech2Text
from open_seq2seq.optimizers.lr_policies import cosine_decay

base_model = Speech2Text
data_root = "librispeech/"


def block(repeat, kernel_size, num_channels, stride=1, dilation=1, **others):
    return {"type": "sep_conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dilation": [dilation],
            **others}


base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 32,
    "num_epochs": 400,
    "iter_size": 1,
    "random_seed": 0,
    "save_summaries_steps": 100,
    "print_loss_steps": 10,
    "print_samples_steps": 2200,
    "eval_steps": 2200,
    "save_checkpoint_steps": 1100,
    "num_checkpoints": 2,
    "logdir": "quartznet15x5",
    "dtype": "float32",

    "optimizer": "NovoGrad",
    # compat_no_ema: the published recipe used the norm of the current gradient instead of its moving average.
    "optimizer_params": {"beta1": 0.95, "beta2": 0.5, "epsilon": 1e-8, "weight_decay": 0.001,
                         "grad_averaging": False, "compat_no_ema": True},
    "lr_policy": cosine_decay,
    "lr_policy_params": {"learning_rate": 0.01, "min_lr": 0.0, "warmup_steps": 1000},

    "encoder": TDNNEncoder,
    "encoder_params": {
        "convnet_layers": [
            block(1, 33, 256, stride=2),
            block(5, 33, 256, residual=True),
            block(5, 33, 256, residual=True),
            block(5, 33, 256, residual=True),
            block(5, 39, 256, residual=True),
            block(5, 39, 256, residual=True),
            block(5, 39, 256, residual=True),
            block(5, 51, 512, residual=True),
            block(5, 51, 512, residual=True),
            block(5, 51, 512, residual=True),
            block(5, 63, 512, residual=True),
            block(5, 63, 512, residual=True),
            block(5, 63, 512, residual=True),
            block(5, 75, 512, residual=True),
            block(5, 75, 512, residual=True),
            block(5, 75, 512, residual=True),
            block(1, 87, 512, dilation=2, residual=True),
            block(1, 1, 1024, type="conv1d"),
        ],
        "dropout_keep_prob": 1.0,
        "activation_fn": "relu",
        "initializer": "GlorotNormal",
    },

    "decoder": FullyConnectedCTCDecoder,
    "decoder_params": {
        "initializer": "GlorotUniform",
        "use_language_model": False,
        "beam_width": 512,
    },

    "loss": CTCLoss,

    "data_layer": Speech2TextDataLayer,
    "data_layer_params": {
        "backend": "librosa",
        "input_type": "logfbank",
        "num_audio_features": 64,
        "norm_per_feature": True,
        "window": "hanning",
        "sample_freq": 16000,
        "pad_to": 16,
        "dither": 1e-5,
        "vocab_file": data_root + "vocab.txt",
    },
}

train_params = {
    "data_layer_params": {
        "dataset_files": [
            data_root + "librivox-train-clean-100.csv",
            data_root + "librivox-train-clean-360.csv",
            data_root + "librivox-train-other-500.csv",
        ],
        "max_duration": 16.7,
        "shuffle": True,
        "augmentation": {"n_freq_mask": 2, "n_time_mask": 2, "width_freq_mask": 6, "width_time_mask": 6},
    },
}

eval_params = {
    "data_layer_params": {
        "dataset_files": [data_root + "librivox-dev-clean.csv"],
    },
}

infer_params = {
    "data_layer_params": {
        "dataset_files": [data_root + "librivox-test-clean.csv"],
    },
}
