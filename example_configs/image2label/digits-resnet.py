"""Spoken digits as images: a small ResNet on log mel spectrograms.

Data: python scripts/prepare_digits.py --data_dir=FOLDER --output_dir=digits
Run:  python run.py --config_file=example_configs/image2label/digits-resnet.py --mode=train_eval
"""
from open_seq2seq.data import SpeechCommandsDataLayer
from open_seq2seq.decoders import FullyConnectedDecoder
from open_seq2seq.encoders import ResNetEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import Image2Label
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import cosine_decay

base_model = Image2Label
data_root = "digits/"

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 32,
    "num_epochs": 20,
    "random_seed": 0,
    "save_summaries_steps": 100,
    "print_loss_steps": 50,
    "print_samples_steps": 500,
    "eval_steps": 250,
    "save_checkpoint_steps": 250,
    "num_checkpoints": 2,
    "best_metric": "Eval top-1",
    "best_metric_mode": "max",
    "logdir": "digits-resnet",
    "dtype": "mixed",

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9},
    "lr_policy": cosine_decay,
    "lr_policy_params": {"learning_rate": 0.1, "warmup_steps": 100},
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 1e-4},

    "encoder": ResNetEncoder,
    "encoder_params": {
        "block_sizes": [1, 1, 1, 1],
        "block_strides": [2, 2, 2, 2],
        "first_num_filters": 16,
        "first_kernel_size": 3,
        "first_conv_stride": 1,
        "first_pool_size": 0,
        "bn_momentum": 0.97,
    },
    "decoder": FullyConnectedDecoder,
    "loss": CrossEntropyLoss,

    "data_layer": SpeechCommandsDataLayer,
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
eval_params = {"data_layer_params": {"dataset_files": [data_root + "commands-dev.txt"]}}
infer_params = {"data_layer_params": {"dataset_files": [data_root + "commands-test.txt"]}}
