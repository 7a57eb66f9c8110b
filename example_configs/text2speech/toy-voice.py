"""A toy voice: Tacotron 2, small enough to learn a vowel for each of five letters in minutes.

For demonstrations and tests; nothing has to be downloaded. `make demo-speech` runs all of it.

Data: python scripts/create_toy_voice.py --output_dir=toy_voice_data
Run:  python run.py --config_file=example_configs/text2speech/toy-voice.py --mode=train_eval
Time: 2 minutes on two cores of an AMD EPYC without half-precision instructions
Score: 115 of 120 letters are heard (docs/speech-synthesis.md)
Use:  python run.py speak toy-voice "ae iou" > out.wav
"""
base_config = "tacotron_float.py"
data_dir = "toy_voice_data/"

base_params = {
    "max_steps": 900,
    "batch_size_per_gpu": 16,
    "print_samples_steps": 300,
    "eval_steps": 300,
    "save_checkpoint_steps": 300,
    "logdir": "toy-voice",
    "max_grad_norm": 5.0,
    "lr_policy_params": {"learning_rate": 2e-3, "begin_decay_at": 400, "decay_steps": 250},
    "encoder_params": {
        "cnn_dropout_prob": 0.0,
        "src_emb_size": 64,
        "conv_layers": [{"kernel_size": [5], "stride": [1], "num_channels": 64, "padding": "SAME"}],
        "rnn_cell_dim": 64,
        "use_cudnn_rnn": False,
    },
    "decoder_params": {
        "reduction_factor": 2,
        "attention_layer_size": 64,
        "decoder_cell_units": 256,
        "decoder_layers": 1,
        "dropout_prob": 0.0,
        "prenet_units": 128,
        "prenet_dropout_prob": 0.1,
        "postnet_keep_dropout_prob": 0.9,
        "postnet_conv_layers": [
            {"kernel_size": [5], "stride": [1], "num_channels": 64, "padding": "SAME", "activation_fn": "tanh"},
            {"kernel_size": [5], "stride": [1], "num_channels": -1, "padding": "SAME", "activation_fn": None},
        ],
    },
    "loss_params": {"guided_attention_weight": 2.0, "stop_token_weight": 2.0},
    "data_layer_params": {
        "vocab_file": data_dir + "vocab.txt",
        "output_type": "mel",
        "num_audio_features": {"mel": 40},
        "sample_freq": 8000,
        "n_fft": 512,
        "pad_to": 2,
        "use_cache": True,
    },
}

train_params = {
    "data_layer_params": {"dataset_files": [data_dir + "train.csv"], "duration_min": 0, "duration_max": 4000},
}
eval_params = {"data_layer_params": {"dataset_files": [data_dir + "dev.csv"]}}
infer_params = {"batch_size_per_gpu": 20}
interactive_infer_params = {"batch_size_per_gpu": 20}
