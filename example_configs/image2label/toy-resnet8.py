"""Toy task: a ResNet of eight layers learns to distinguish circles, crosses, squares and triangles.

Data: python scripts/create_toy_images.py --output_dir=toy_image_data
Run:  python run.py --config_file=example_configs/image2label/toy-resnet8.py --mode=train_eval
"""
from open_seq2seq.data import ImageFolderDataLayer
from open_seq2seq.decoders import FullyConnectedDecoder
from open_seq2seq.encoders import ResNetEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import Image2Label
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import cosine_decay

base_model = Image2Label
data_root = "toy_image_data/"

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 32,
    "num_epochs": 4,
    "save_summaries_steps": 50,
    "print_loss_steps": 20,
    "print_samples_steps": 100,
    "eval_steps": 60,
    "save_checkpoint_steps": 60,
    "best_metric": "Eval top-1",
    "best_metric_mode": "max",
    "logdir": "toy-resnet8",
    "random_seed": 0,
    "dtype": "float32",

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9},
    "lr_policy": cosine_decay,
    "lr_policy_params": {"learning_rate": 0.05},
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 1e-4},

    "encoder": ResNetEncoder,
    "encoder_params": {
        "block_sizes": [1, 1, 1],
        "version": 2,
        "first_num_filters": 8,
        "first_kernel_size": 3,
        "first_conv_stride": 1,
        "first_pool_size": 0,
        "bn_momentum": 0.9,
    },
    "decoder": FullyConnectedDecoder,
    "loss": CrossEntropyLoss,

    "data_layer": ImageFolderDataLayer,
    "data_layer_params": {
        "classes": ["circle", "cross", "square", "triangle"],
        "image_size": 28,
        "resize_size": 32,
        "train_crop": "padded",
        "standardize": "image",
        "cache_images": True,
    },
}

train_params = {"data_layer_params": {"folder": data_root + "train"}}
eval_params = {"batch_size_per_gpu": 100, "data_layer_params": {"folder": data_root + "dev"}}
infer_params = {"batch_size_per_gpu": 100, "data_layer_params": {"folder": data_root + "dev"}}
