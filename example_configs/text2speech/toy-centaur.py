"""The toy voice by Centaur: causal convolutions with attention, small enough to learn in minutes.

Data: python scripts/create_toy_voice.py --output_dir=toy_voice_data
Run:  python run.py --config_file=example_configs/text2speech/toy-centaur.py --mode=train_eval
Score: 115 of 120 letters are heard (docs/speech-synthesis.md)
Use:  python run.py speak toy-centaur "ae iou" > out.wav
"""
base_config = "centaur_float.py"
data_dir = "toy_voice_data/"

encoder_layer = {"kernel_size": [3], "stride": [1], "num_channels": 64, "padding": "SAME", "activation_fn": "relu"}
decoder_layer = {"kernel_size": [5], "stride": [1], "num_channels": 128, "padding": "VALID", "is_causal": True,
                 "activation_fn": "relu"}

base_params = {
    "use_horovod": False,
    "max_steps": 2000,
    "batch_size_per_gpu": 16,
    "save_summaries_steps": 50,
    "print_loss_steps": 50,
    "print_samples_steps": 500,
    "eval_steps": 500,
    "save_checkpoint_steps": 500,
    "logdir": "toy-centaur",
    "optimizer": "Adam",
    "optimizer_params": {},
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 1e-3, "warmup_steps": 50, "min_lr": 0.01},
    "encoder_params": {
        "embedding_size": 64,
        "output_size": 64,
        "cnn_dropout_prob": 0.0,
        "conv_layers": [encoder_layer] * 2,
    },
    "decoder_params": {
        "attention_layers": 2,
        "force_layers": [1],
        "window_size": 2,
        "attention_cnn_dropout_prob": 0.1,
        "hidden_size": 128,
        "prenet_hidden_size": 128,
        "cnn_dropout_prob": 0.0,
        "conv_layers": [decoder_layer] * 2,
        "mag_conv_layers": [],
        "bn_momentum": 0.9,
    },
    "loss_params": {"guided_attention_weight": 2.0, "stop_token_weight": 2.0},
    "data_layer_params": {
        "vocab_file": data_dir + "vocab.txt",
        "output_type": "mel",
        "num_audio_features": {"mel": 40},
        "sample_freq": 8000,
        "n_fft": 512,
        "pad_to": 2,
    },
}

train_params = {
    "data_layer_params": {"dataset_files": [data_dir + "train.csv"], "duration_min": 0, "duration_max": 4000},
}
eval_params = {"data_layer_params": {"dataset_files": [data_dir + "dev.csv"], "duration_max": 4000}}
infer_params = {"batch_size_per_gpu": 20}
interactive_infer_params = {"batch_size_per_gpu": 20}
