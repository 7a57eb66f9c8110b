"""A voice from 22 minutes of speech: phonemes are upsampled to frames by their durations, without attention.

Data: the recordings of https://github.com/rhasspy/dataset-voice-kathleen (CC0) at 22,050 Hz in kathleen/wavs/, with
      kathleen/metadata.csv; then python scripts/align_speech.py --data_dir=kathleen
Run:  python run.py --config_file=example_configs/text2speech/kathleen-durations.py --mode=train_eval
Time: 50 minutes on two cores of an AMD EPYC without half-precision instructions
Score: 11.3 % of the characters are misheard by a recogniser (docs/speech-synthesis.md)
Use:  python run.py speak kathleen-durations "He turned sharply." > out.wav
"""
data_dir = "kathleen/"
recordings_dir = data_dir

encoder_layer = {"kernel_size": [5], "stride": [1], "num_channels": 256, "padding": "SAME"}
postnet_layer = {**encoder_layer, "num_channels": 128, "activation_fn": "tanh"}

base_model = "Text2SpeechDurationModel"

base_params = {
    "random_seed": 0,
    "use_horovod": False,
    "num_gpus": 1,
    "max_steps": 8000,
    "batch_size_per_gpu": 8,
    "save_summaries_steps": 50,
    "print_loss_steps": 50,
    "print_samples_steps": 500,
    "eval_steps": 500,
    "save_checkpoint_steps": 250,
    "logdir": "kathleen-durations",
    "max_grad_norm": 1.0,
    "optimizer": "Adam",
    "optimizer_params": {},
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 1e-3, "warmup_steps": 200, "min_lr": 0.01},
    "dtype": "float32",
    "ema_decay": 0.998,
    "initializer": "GlorotUniform",

    "encoder": "Tacotron2Encoder",
    "encoder_params": {
        "cnn_dropout_prob": 0.2,
        "rnn_dropout_prob": 0.1,
        "src_emb_size": 256,
        "conv_layers": [encoder_layer] * 2,
        "activation_fn": "relu",
        "num_rnn_layers": 1,
        "rnn_cell_dim": 128,
        "rnn_unidirectional": False,
        "use_cudnn_rnn": True,
        "rnn_type": "LSTMCell",
        "bn_momentum": 0.9,
    },

    "decoder": "DurationDecoder",
    "decoder_params": {
        "decoder_type": "convolutional",
        "decoder_layers": 5,
        "decoder_cell_units": 256,
        "decoder_kernel_size": 5,
        "dropout_prob": 0.1,
        "postnet_keep_dropout_prob": 0.9,
        "postnet_bn_momentum": 0.9,
        "postnet_conv_layers": [postnet_layer, postnet_layer,
                                {**postnet_layer, "num_channels": -1, "activation_fn": None}],
    },

    "loss": "Text2SpeechLoss",
    "loss_params": {"l1_norm": True},

    "data_layer": "Text2SpeechDataLayer",
    "data_layer_params": {
        "dataset": "LJ",
        "dataset_location": recordings_dir,
        "vocab_file": data_dir + "phonemes.txt",
        "pronunciations": data_dir + "pronunciations.txt",
        "symbols": "phonemes",
        "durations": True,
        "output_type": "mel",
        "num_audio_features": 80,
        "data_min": 1e-2,
        "mag_power": 1,
        "feature_normalize": True,
        "feature_normalize_mean": -1.3,
        "feature_normalize_std": 1.6,
        "pad_EOS": False,
        "use_cache": True,
    },
}

train_params = {"data_layer_params": {"dataset_files": [data_dir + "train_aligned.csv"]}}
eval_params = {"data_layer_params": {"dataset_files": [data_dir + "dev_aligned.csv"]}}
infer_params = {"batch_size_per_gpu": 16, "data_layer_params": {"dataset_files": [data_dir + "dev_aligned.csv"]}}
interactive_infer_params = {"batch_size_per_gpu": 16}
