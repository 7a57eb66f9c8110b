"""WaveNet as the vocoder of the toy voice: small enough to learn its sound in minutes.

It reads the spectrograms of toy-voice.py, so it makes the sound of what that model speaks.

Data: python scripts/create_toy_voice.py --output_dir=toy_voice_data
Run:  python run.py --config_file=example_configs/text2speech/toy-wavenet.py --mode=train_eval
Use:  python run.py --mode=infer --logdir=toy-wavenet --infer_files spoken/0000.npy --infer_output_file=sound
"""
base_config = "wavenet_float.py"
data_dir = "toy_voice_data/"

base_params = {
    "dtype": "mixed",
    "max_steps": 5000,
    "batch_size_per_gpu": 4,
    "eval_steps": 1000,
    "save_checkpoint_steps": 1000,
    "logdir": "toy-wavenet",
    "max_grad_norm": 1.0,
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 2e-3, "warmup_steps": 100, "min_lr": 0.01},
    "sampling_temperature": 0.4,  # with 1, a sixth of the letters are not recognised
    "encoder_params": {"blocks": 1, "layers_per_block": 8, "bn_momentum": 0.95, "upsampling_strides": [16, 8]},
    "data_layer_params": {
        "num_audio_features": 40,
        "sample_freq": 8000,
        "n_fft": 512,
        "data_min": 1e-2,
        "mag_power": 1,
        "segment_frames": 24,
        "context_frames": 4,  # the receptive field
        "use_cache": True,
    },
}

train_params = {"data_layer_params": {"dataset_files": [data_dir + "train.csv"]}}
eval_params = {"data_layer_params": {"dataset_files": [data_dir + "dev.csv"]}}
infer_params = {"batch_size_per_gpu": 20}
interactive_infer_params = {"batch_size_per_gpu": 20}
