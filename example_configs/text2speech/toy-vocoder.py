"""A vocoder for the toy voice, which reads the spectrograms of toy-voice.py and toy-durations.py.

Data: python scripts/create_toy_voice.py --output_dir=toy_voice_data
Run:  python run.py --config_file=example_configs/text2speech/toy-vocoder.py --mode=train_eval
Use:  python run.py speak toy-voice "ae iou" --vocoder=toy-vocoder > out.wav
"""
base_config = "kathleen-vocoder.py"
data_dir = "toy_voice_data/"

base_params = {
    "max_steps": 600,
    "eval_steps": 200,
    "save_checkpoint_steps": 200,
    "logdir": "toy-vocoder",
    "lr_policy_params": {"learning_rate": 2e-3, "warmup_steps": 50},
    "ema_decay": 0.99,
    "encoder_params": {"hidden_size": 128, "inner_size": 256, "blocks": 3},
    "loss_params": {"resolutions": [256, 512, 1024]},
    "data_layer_params": {
        "num_audio_features": 40,
        "sample_freq": 8000,
        "n_fft": 512,
        "feature_normalize": False,
        "segment_frames": 33,
    },
}

train_params = {"data_layer_params": {"dataset_files": [data_dir + "train.csv"]}}
eval_params = {"data_layer_params": {"dataset_files": [data_dir + "dev.csv"]}}
infer_params = {"batch_size_per_gpu": 20, "data_layer_params": {"dataset_files": [data_dir + "test.csv"]}}
interactive_infer_params = {"batch_size_per_gpu": 20}
