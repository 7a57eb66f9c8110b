"""ResNet-50 on spoken commands, as images of log mel spectrograms.

Published: test accuracies after 100 epochs on 8 GPUs of v1-12 96.6 %, v1-30 97.3 %, v2 95.9 %.

These settings are for one GPU.

Data: python scripts/prepare_speech_commands.py --data_dir=data/speech_commands_v1 --version=v1-12
Run:  python run.py --config_file=example_configs/image2label/resnet_commands.py --mode=train_eval
"""
base_config = "resnet-50-v2-mp.py"
dataset_version = "v1-12"  # or v1-30, v2
dataset_location = "data/speech_commands_v" + dataset_version[1]
num_labels = {"v1-12": 12, "v1-30": 30, "v2": 35}[dataset_version]


def lists(part):
    return {"dataset_files": [f"{dataset_location}/{dataset_version}-{part}.txt"]}


base_params = {
    "batch_size_per_gpu": 32,
    "num_epochs": 20,
    "logdir": "resnet_commands",
    "loss_scaling": 512.0,
    "optimizer_params": {"momentum": 0.95},
    "lr_policy_params": {"learning_rate": 0.2},
    "decoder_params": {"output_dim": num_labels},

    "data_layer": "SpeechCommandsDataLayer",
    "data_layer_params": {
        "dataset_location": dataset_location,
        "class_file": f"{dataset_location}/{dataset_version}-classes.txt",
        "num_audio_features": 120,
        "audio_length": 120,
        "num_labels": num_labels,
        "model_format": "resnet",
        "cache_data": True,
    },
}

train_params = {"data_layer_params": {**lists("train"), "augment_data": True}}
eval_params = {"batch_size_per_gpu": 32, "data_layer_params": lists("val")}
infer_params = {"batch_size_per_gpu": 32, "data_layer_params": lists("test")}
