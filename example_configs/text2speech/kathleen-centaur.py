"""A voice from 22 minutes of speech: a small Centaur that reads phonemes and predicts three frames per step.

Data: the recordings of https://github.com/rhasspy/dataset-voice-kathleen (CC0) at 22,050 Hz in kathleen/wavs/, with
      kathleen/metadata.csv; then python scripts/align_speech.py --data_dir=kathleen
Run:  python run.py --config_file=example_configs/text2speech/kathleen-centaur.py --mode=train_eval
Time: 28 minutes on two cores of an AMD EPYC with avx512_bf16
Score: 36.2 % of the characters are misheard by a recogniser (docs/speech-synthesis.md)
Use:  python run.py speak kathleen-centaur "He turned sharply." > out.wav
"""
base_config = "centaur_float.py"
data_dir = "kathleen/"
recordings_dir = data_dir

encoder_layer = {"kernel_size": [3], "stride": [1], "num_channels": 256, "padding": "SAME", "activation_fn": "relu"}
decoder_layer = {"kernel_size": [5], "stride": [1], "num_channels": 256, "padding": "VALID", "is_causal": True,
                 "activation_fn": "relu"}

base_params = {
    "use_horovod": False,
    "max_steps": 6000,
    "batch_size_per_gpu": 16,
    "save_summaries_steps": 50,
    "print_loss_steps": 50,
    "print_samples_steps": 500,
    # The best weights are those that a recogniser understands best, as in kathleen-tacotron.py.
    "eval_steps": 1000,
    "recognizer": "pocketsphinx",
    "best_metric": "Eval character error",
    "save_checkpoint_steps": 250,
    "logdir": "kathleen-centaur",
    "optimizer": "Adam",
    "optimizer_params": {},
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 1e-3, "warmup_steps": 200, "min_lr": 0.01},
    "ema_decay": 0.998,
    "encoder_params": {"cnn_dropout_prob": 0.2, "conv_layers": [encoder_layer] * 3, "bn_momentum": 0.9},
    "decoder_params": {
        "reduction_factor": 3,
        "hidden_size": 256,
        "prenet_hidden_size": 256,
        "attention_layers": 3,
        "force_layers": [1, 2],
        "attention_cnn_dropout_prob": 0.2,
        "conv_layers": [decoder_layer] * 3,
        "mag_conv_layers": [],
        "bn_momentum": 0.9,
        "most_end_frames": 60,
    },
    # The attention learns the durations of the aligner, and the few frames at which speech ends count more.
    "loss_params": {"duration_attention_weight": 1.0, "stop_token_weight": 3.0},
    "data_layer_params": {
        "dataset_location": recordings_dir,
        "vocab_file": data_dir + "phonemes.txt",
        "pronunciations": data_dir + "pronunciations.txt",
        "symbols": "phonemes",
        "durations": True,
        "output_type": "mel",
        "feature_normalize": True,
        "feature_normalize_mean": -1.3,
        "feature_normalize_std": 1.6,
        "trim": True,
        "pad_to": 3,
    },
}

train_params = {
    "data_layer_params": {"dataset_files": [data_dir + "train_aligned.csv"], "duration_min": 0, "duration_max": 4000},
}
eval_params = {"data_layer_params": {"dataset_files": [data_dir + "dev_aligned.csv"], "duration_max": 4000}}
infer_params = {"batch_size_per_gpu": 16, "data_layer_params": {"dataset_files": [data_dir + "dev_aligned.csv"]}}
interactive_infer_params = {"batch_size_per_gpu": 16}
