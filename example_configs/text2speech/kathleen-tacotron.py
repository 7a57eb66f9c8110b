"""A voice from 22 minutes of speech: a small Tacotron 2 that reads phonemes and predicts three frames per step.

Data: the recordings of https://github.com/rhasspy/dataset-voice-kathleen (CC0) at 22,050 Hz in kathleen/wavs/, with
      kathleen/metadata.csv; then python scripts/align_speech.py --data_dir=kathleen
Run:  python run.py --config_file=example_configs/text2speech/kathleen-tacotron.py --mode=train_eval
Time: 49 minutes on one core of an Intel Xeon with amx_bf16
Score: 37.3 % of the characters are misheard by a recogniser (docs/speech-synthesis.md)
Use:  python run.py speak kathleen-tacotron "He turned sharply." > out.wav
"""
base_config = "tacotron_float.py"
data_dir = "kathleen/"
recordings_dir = data_dir

conv_layer = {"kernel_size": [5], "stride": [1], "num_channels": 128, "padding": "SAME"}

base_params = {
    "max_steps": 6000,
    "batch_size_per_gpu": 16,
    # The best weights are those that a recogniser understands best: the validation loss, with teacher forcing, begins
    # to rise long before the speech stops improving. An evaluation takes one or two minutes.
    "eval_steps": 1000,
    "recognizer": "pocketsphinx",
    "best_metric": "Eval character error",
    "save_checkpoint_steps": 250,
    "logdir": "kathleen-tacotron",
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 1.5e-3, "warmup_steps": 200, "min_lr": 0.01},
    "ema_decay": 0.998,
    "encoder_params": {
        "cnn_dropout_prob": 0.2,
        "src_emb_size": 256,
        "conv_layers": [{**conv_layer, "num_channels": 256}] * 2,
        "rnn_cell_dim": 128,
        "bn_momentum": 0.9,
    },
    "decoder_params": {
        "reduction_factor": 3,
        "decoder_cell_units": 512,
        "decoder_layers": 1,
        "prenet_units": 128,
        "postnet_keep_dropout_prob": 0.8,
        "postnet_bn_momentum": 0.9,
        "postnet_conv_layers": [{**conv_layer, "activation_fn": "tanh"}] * 2 + [
            {**conv_layer, "num_channels": -1, "activation_fn": None}],
        "stop_token_input": "decoder",
    },
    # The attention learns the durations of the aligner, and the few frames at which speech ends count more.
    "loss_params": {"duration_attention_weight": 1.0, "stop_token_weight": 3.0, "l1_norm": True},
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
        "use_cache": True,
    },
}

train_params = {"data_layer_params": {"dataset_files": [data_dir + "train_aligned.csv"]}}
eval_params = {"data_layer_params": {"dataset_files": [data_dir + "dev_aligned.csv"]}}
infer_params = {"batch_size_per_gpu": 16, "data_layer_params": {"dataset_files": [data_dir + "dev_aligned.csv"]}}
interactive_infer_params = {"batch_size_per_gpu": 16}
