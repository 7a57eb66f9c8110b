"""Your own recordings: a small Wave2Letter+ for minutes to some hours of short utterances.

Data: lists train.csv, dev.csv and test.csv of recordings and transcripts, and their alphabet, from one table:
      python scripts/prepare_speech.py --table=recordings.csv --output_dir=my_speech --lower_case \
          --remove_characters=".,?!"
Run:  python run.py --config_file=example_configs/speech2text/own-speech.py --mode=train_eval

docs/speech-recognition.md describes every step, from the recordings to transcripts of new ones.
"""
import os

# The five things to choose, in a config of your own that names this one as its base_config:
data_dir = "my_speech/"                         # 1. folder of the lists and of vocab.txt
lower_case, remove_characters = True, ".,?!"    # 2. as for prepare_speech.py
sample_freq = 16000                             # 3. Hz; 8000 for telephone speech. Other rates are converted
batch_size = 24                                 # 4. recordings in a batch: half as many if the memory is too small
max_steps = 4000                                # 5. most updates; training ends earlier if dev does not get better

base_model = "Speech2Text"


def block(repeat, kernel_size, num_channels, dropout_keep_prob, stride=1):
    return {"type": "conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dropout_keep_prob": dropout_keep_prob}


base_params = {
    "batch_size_per_gpu": batch_size,
    "max_steps": max_steps,
    "random_seed": 0,
    "save_summaries_steps": 50,
    "print_loss_steps": 50,
    "print_samples_steps": 250,
    "eval_steps": 250,
    "save_checkpoint_steps": 250,
    "num_checkpoints": 2,
    "best_metric": "Eval WER",
    "stop_after_evals_without_gain": 8,
    "logdir": "own-speech-model",
    "dtype": "mixed",

    "optimizer": "AdamW",
    "optimizer_params": {"weight_decay": 0.05},
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 0.004, "warmup_share": 0.075},
    "max_grad_norm": 5.0,
    "ema_decay": 0.998,

    "encoder": "TDNNEncoder",
    "encoder_params": {
        "convnet_layers": [
            block(1, 11, 64, 0.9, stride=2),
            block(2, 11, 96, 0.9),
            block(2, 13, 128, 0.8),
            block(1, 17, 192, 0.8),
            block(1, 1, 256, 0.7),
        ],
        "dropout_keep_prob": 0.8,
        "bn_momentum": 0.98,
        "activation_fn": "relu",
        "initializer": "GlorotNormal",
    },

    "decoder": "FullyConnectedCTCDecoder",
    "loss": "CTCLoss",

    "data_layer": "Speech2TextDataLayer",
    "data_layer_params": {
        "backend": "librosa",
        "input_type": "logfbank",
        "num_audio_features": 40,
        "sample_freq": sample_freq,
        "pad_to": 16,
        "dither": 1e-4,
        "vocab_file": os.path.join(data_dir, "vocab.txt"),
        "lower_case": lower_case,
        "remove_characters": remove_characters,
    },
}

train_params = {
    "data_layer_params": {
        "dataset_files": [os.path.join(data_dir, "train.csv")],
        "augmentation": {
            "speed_perturbation_ratio": 0.1,
            "noise_level_min": -80, "noise_level_max": -30,
            "n_freq_mask": 2, "width_freq_mask": 6,
            "n_time_mask": 1, "width_time_mask": 8,
        },
    },
}

eval_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {"dataset_files": [os.path.join(data_dir, "dev.csv")]},
}

infer_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {"dataset_files": [os.path.join(data_dir, "test.csv")]},
}
