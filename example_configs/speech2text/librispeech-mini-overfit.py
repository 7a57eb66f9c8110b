"""Overfits ten utterances, to check that a recogniser learns at all.

A network that cannot memorise ten utterances has a bug. Evaluation is greedy, on the same ten utterances.
Word error rates observed in float32 on CPUs: w2lplus 0.0 % after 60 updates, jasper 0.0 % after 40, quartznet 1.7 %
after 60, ds2 2.8 % after 80, jca 2.8 % after 60, in one to three and a half minutes of CPU time.

    MODEL       network
    w2lplus     Wave2Letter+
    jasper      Jasper: five blocks, dense residual connections
    quartznet   QuartzNet: separable convolutions
    ds2         Deep Speech 2
    jca         joint CTC and attention

Data: python scripts/import_librivox.py --output_dir=librispeech-mini --shortest=10 librispeech-mini.tar
      with any archive or folder of LibriSpeech's train-clean-100; the lists contain its ten shortest recordings.
Run:  MODEL=jasper python run.py --config_file=example_configs/speech2text/librispeech-mini-overfit.py --mode=train_eval
      --dtype=float32 is faster on CPUs without bfloat16 instructions.
"""
import os

base_model = "Speech2Text"
model = os.environ.get("MODEL", "w2lplus")
data_root = "librispeech-mini/"


def block(repeat, kernel_size, num_channels, stride=1, dilation=1, **others):
    return {"type": "conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dilation": [dilation], **others}


def convolutions(*layers):
    return {
        "encoder": "TDNNEncoder",
        "encoder_params": {
            "convnet_layers": list(layers),
            "dropout_keep_prob": 1.0,
            "activation_fn": "relu",
            "initializer": "GlorotNormal",
        },
        "decoder": "FullyConnectedCTCDecoder",
        "loss": "CTCLoss",
    }


dense = {"residual": True, "residual_dense": True}
separable = {"type": "sep_conv1d", "residual": True}

models = {
    "w2lplus": convolutions(
        block(1, 11, 96, stride=2),
        block(2, 11, 96),
        block(2, 13, 128),
        block(1, 15, 128, dilation=2),
        block(1, 1, 192),
    ),

    "jasper": convolutions(
        block(1, 11, 64, stride=2),
        block(2, 11, 64, **dense),
        block(2, 13, 64, **dense),
        block(2, 15, 96, **dense),
        block(2, 17, 96, **dense),
        block(2, 19, 96, **dense),
        block(1, 21, 96, dilation=2),
        block(1, 1, 192),
    ),

    "quartznet": convolutions(
        block(1, 33, 96, stride=2, type="sep_conv1d"),
        block(2, 33, 96, **separable),
        block(2, 39, 96, **separable),
        block(2, 51, 128, **separable),
        block(2, 63, 128, **separable),
        block(2, 75, 128, **separable),
        block(1, 87, 128, dilation=2, type="sep_conv1d"),
        block(1, 1, 192),
    ),

    "ds2": {
        "encoder": "DeepSpeech2Encoder",
        "encoder_params": {
            "conv_layers": [
                {"kernel_size": [11, 11], "stride": [2, 2], "num_channels": 16, "padding": "SAME"},
                {"kernel_size": [5, 7], "stride": [2, 2], "num_channels": 24, "padding": "SAME"},
            ],
            "num_rnn_layers": 2,
            "rnn_type": "cudnn_gru",
            "rnn_cell_dim": 128,
            "rnn_unidirectional": False,
            "use_cudnn_rnn": True,
            "row_conv": False,
            "n_hidden": 256,
            "dropout_keep_prob": 1.0,
            "activation_fn": "relu",
            "bn_momentum": 0.9,
            "initializer": "GlorotUniform",
        },
        "decoder": "FullyConnectedCTCDecoder",
        "loss": "CTCLoss",
    },

    "jca": {
        "encoder": "ListenAttendSpellEncoder",
        "encoder_params": {
            "convnet_layers": [
                block(1, 11, 96, stride=2),
                block(2, 11, 96),
                block(1, 11, 128, stride=2),
                block(2, 13, 128),
            ],
            "recurrent_layers": [{"type": "gru", "num_layers": 1, "hidden_dim": 96}],
            "dropout_keep_prob": 1.0,
            "activation_fn": "relu",
            "initializer": "GlorotNormal",
        },
        "decoder": "JointCTCAttentionDecoder",
        "decoder_params": {
            "attn_decoder": "ListenAttendSpellDecoder",
            "attn_decoder_params": {
                "tgt_emb_size": 64,
                "attention_params": {"attention_dim": 96, "attention_type": "chorowski"},
                "rnn_type": "lstm",
                "hidden_dim": 192,
                "num_layers": 1,
            },
            "ctc_decoder": "FullyConnectedCTCDecoder",
            "ctc_decoder_params": {},
            "beam_search_params": {"beam_width": 1, "ctc_weight": 0.3},
            "language_model_params": {"use_language_model": False},
        },
        "loss": "MultiTaskCTCEntropyLoss",
        "loss_params": {
            "seq_loss_params": {"offset_target_by_one": False, "average_across_timestep": True, "do_mask": True},
            "ctc_loss_params": {},
            "lambda_value": 0.5,
        },
    },
}
if model not in models:
    raise ValueError(f"MODEL is {model!r} but has to be one of {', '.join(models)}")

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 10,
    "max_steps": 200,
    "random_seed": 0,
    "save_summaries_steps": 100,
    "print_loss_steps": 10,
    "print_samples_steps": 100,
    "eval_steps": 20,
    "save_checkpoint_steps": 100,
    "num_checkpoints": 1,
    "logdir": "overfit-" + model,
    "dtype": "mixed",

    "optimizer": "Adam",
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 0.002, "warmup_steps": 20},
    "max_grad_norm": 1.0,

    **models[model],

    "data_layer": "Speech2TextDataLayer",
    "data_layer_params": {
        "backend": "librosa",
        "input_type": "logfbank",
        "num_audio_features": 64,
        "norm_per_feature": True,
        "pad_to": 16,
        "vocab_file": data_root + "vocab.txt",
        "dataset_files": [data_root + "librivox-train-clean-100.csv"],
        "autoregressive": model == "jca",
        "cache_features": True,
    },
}
