"""Tacotron 2 on LJSpeech in float32: 80 mel filters and 513 magnitudes for each frame.

The network is that of Shen et al. 2018 (https://arxiv.org/abs/1712.05884) with the changes of NVIDIA's OpenSeq2Seq: the
stop token is computed from the spectrogram, dropout replaces zoneout, and a second network computes magnitudes.

Data: LJSpeech (https://keithito.com/LJ-Speech-Dataset) in LJSpeech-1.1/, with metadata.csv divided into three lists:
      sed -n '1,12500p' metadata.csv > train_32.csv; sed -n '12501,12800p' metadata.csv > val_32.csv;
      sed -n '12801,13100p' metadata.csv > test.csv
Run:  python run.py --config_file=example_configs/text2speech/tacotron_float.py --mode=train_eval
"""
data_dir = "LJSpeech-1.1/"

postnet_layer = {"kernel_size": [5], "stride": [1], "num_channels": 512, "padding": "SAME", "activation_fn": "tanh"}

base_model = "Text2SpeechTacotron"

base_params = {
    "random_seed": 0,
    "use_horovod": False,
    "num_gpus": 1,
    "max_steps": 100000,
    "batch_size_per_gpu": 48,
    "save_summaries_steps": 50,
    "print_loss_steps": 50,
    "print_samples_steps": 500,
    "eval_steps": 500,
    "save_checkpoint_steps": 2500,
    "save_to_tensorboard": True,
    "logdir": "tacotron-float",
    "max_grad_norm": 1.0,
    "optimizer": "Adam",
    "optimizer_params": {},
    "lr_policy": "exp_decay",
    "lr_policy_params": {
        "learning_rate": 1e-3,
        "decay_steps": 20000,
        "decay_rate": 0.1,
        "use_staircase_decay": False,
        "begin_decay_at": 45000,
        "min_lr": 1e-5,
    },
    "dtype": "float32",
    "regularizer": "l2_regularizer",
    "regularizer_params": {"scale": 1e-6},
    "initializer": "GlorotUniform",

    "encoder": "Tacotron2Encoder",
    "encoder_params": {
        "cnn_dropout_prob": 0.5,
        "rnn_dropout_prob": 0.0,
        "src_emb_size": 512,
        "conv_layers": [{"kernel_size": [5], "stride": [1], "num_channels": 512, "padding": "SAME"}] * 3,
        "activation_fn": "relu",
        "num_rnn_layers": 1,
        "rnn_cell_dim": 256,
        "rnn_unidirectional": False,
        "use_cudnn_rnn": True,
        "rnn_type": "LSTMCell",
        "zoneout_prob": 0.0,
    },

    "decoder": "Tacotron2Decoder",
    "decoder_params": {
        "attention_layer_size": 128,
        "attention_type": "location",
        "attention_bias": True,
        "decoder_cell_units": 1024,
        "decoder_cell_type": "LSTMCell",
        "decoder_layers": 2,
        "dropout_prob": 0.1,
        "zoneout_prob": 0.0,
        "enable_prenet": True,
        "prenet_layers": 2,
        "prenet_units": 256,
        "enable_postnet": True,
        "postnet_keep_dropout_prob": 0.5,
        "postnet_conv_layers": [postnet_layer] * 4 + [{**postnet_layer, "num_channels": -1, "activation_fn": None}],
        "mask_decoder_sequence": True,
    },

    "loss": "Text2SpeechLoss",
    "loss_params": {"use_mask": True},

    "data_layer": "Text2SpeechDataLayer",
    "data_layer_params": {
        "dataset": "LJ",
        "dataset_location": data_dir,
        "vocab_file": "example_configs/text2speech/english.txt",
        "output_type": "both",
        "num_audio_features": {"mel": 80, "magnitude": 513},
        "data_min": {"mel": 1e-2, "magnitude": 1e-5},
        "exp_mag": True,
        "mag_power": 1,
        "mel_type": "htk",
        "feature_normalize": False,
        "trim": False,
        "pad_EOS": True,
    },
}

train_params = {
    "data_layer_params": {"dataset_files": [data_dir + "train_32.csv"], "duration_min": 24, "duration_max": 1024},
}

eval_params = {
    "data_layer_params": {"dataset_files": [data_dir + "val_32.csv"], "duration_min": 0, "duration_max": 10000},
}

infer_params = {
    "batch_size_per_gpu": 1,
    "data_layer_params": {"dataset_files": [data_dir + "test.csv"]},
}

interactive_infer_params = {"batch_size_per_gpu": 1}
