"""Spoken digits as images: a small ResNet on log mel spectrograms.

Data: python scripts/prepare_digits.py --data_dir=FOLDER --output_dir=digits
Run:  python run.py --config_file=example_configs/image2label/digits-resnet.py --mode=train_eval
"""
base_config = "toy-resnet8.py"
data_root = "digits/"

base_params = {
    "num_epochs": 20,
    "save_summaries_steps": 100,
    "print_loss_steps": 50,
    "print_samples_steps": 500,
    "eval_steps": 250,
    "save_checkpoint_steps": 250,
    "num_checkpoints": 2,
    "logdir": "digits-resnet",
    "dtype": "mixed",
    "lr_policy_params": {"learning_rate": 0.1, "warmup_steps": 100},
    "encoder_params": {
        "version": "<drop>",
        "block_sizes": [1, 1, 1, 1],
        "block_strides": [2, 2, 2, 2],
        "first_num_filters": 16,
        "bn_momentum": 0.97,
    },
    "data_layer": "SpeechCommandsDataLayer",
    "data_layer_params": {
        "dataset_location": data_root,
        "sample_freq": 8000,
        "num_audio_features": 40,
        "audio_length": 24,
        "num_labels": 10,
        "model_format": "resnet",
        "cache_data": True,
    },
}

train_params = {"data_layer_params": {"dataset_files": [data_root + "commands-train.txt"], "augment_data": True}}
eval_params = {"batch_size_per_gpu": 32, "data_layer_params": {"dataset_files": [data_root + "commands-dev.txt"]}}
infer_params = {"batch_size_per_gpu": 32, "data_layer_params": {"dataset_files": [data_root + "commands-test.txt"]}}
