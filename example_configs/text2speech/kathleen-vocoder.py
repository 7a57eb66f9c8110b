"""A vocoder from 22 minutes of a voice, for the spectrograms of the other kathleen recipes.

Data: as for kathleen-durations.py
Run:  python run.py --config_file=example_configs/text2speech/kathleen-vocoder.py --mode=train_eval
Time: 10 minutes on two cores of an AMD EPYC with avx512_bf16
Use:  python run.py speak kathleen-durations "He turned sharply." --vocoder=kathleen-vocoder > out.wav
"""
data_dir = "kathleen/"
recordings_dir = data_dir

base_model = "Text2SpeechVocoder"

base_params = {
    "random_seed": 0,
    "use_horovod": False,
    "num_gpus": 1,
    "max_steps": 4000,
    "batch_size_per_gpu": 12,
    "save_summaries_steps": 50,
    "print_loss_steps": 50,
    "eval_steps": 1000,
    "save_checkpoint_steps": 500,
    "logdir": "kathleen-vocoder",
    "max_grad_norm": 10.0,
    "optimizer": "AdamW",
    "optimizer_params": {"beta1": 0.8, "beta2": 0.99},
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 1e-3, "warmup_steps": 200, "min_lr": 0.01},
    "dtype": "float32",
    "ema_decay": 0.998,
    "initializer": "GlorotUniform",

    "encoder": "VocosEncoder",
    "encoder_params": {"hidden_size": 256, "inner_size": 512, "blocks": 5},
    "loss": "VocoderLoss",

    "data_layer": "WavenetDataLayer",
    "data_layer_params": {
        "dataset": "LJ",
        "dataset_location": recordings_dir,
        "num_audio_features": 80,
        "data_min": 1e-2,
        "mag_power": 1,
        "feature_normalize": True,
        "feature_normalize_mean": -1.3,
        "feature_normalize_std": 1.6,
        "segment_frames": 65,
        "use_cache": True,
    },
}

train_params = {"data_layer_params": {"dataset_files": [data_dir + "train_aligned.csv"]}}
eval_params = {"data_layer_params": {"dataset_files": [data_dir + "dev_aligned.csv"]}}
infer_params = {"batch_size_per_gpu": 16, "data_layer_params": {"dataset_files": [data_dir + "dev_aligned.csv"]}}
interactive_infer_params = {"batch_size_per_gpu": 16}
