"""ResNet-20 (He et al. 2015, https://arxiv.org/abs/1512.03385) for CIFAR-10, which two CPU cores can train.

The paper reports 91.25 % after 182 epochs. Images are padded by 4 pixels, cropped at random and mirrored at random.
Evaluation averages the predictions for each image and its mirror image. docs/image-classification.md has the
accuracies.

Data: data_root/cifar-10-batches-bin, the unpacked binary files of CIFAR-10. For folders of JPEG or PNG files,
      see the end of this file.
Run:  python run.py --config_file=example_configs/image2label/cifar10-resnet20.py --mode=train_eval
"""
from open_seq2seq.data import CifarDataLayer
from open_seq2seq.decoders import FullyConnectedDecoder
from open_seq2seq.encoders import ResNetEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import Image2Label
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import cosine_decay

base_model = Image2Label
data_root = "data/"

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 128,
    "num_epochs": 70,
    "random_seed": 0,
    "save_summaries_steps": 200,
    "print_loss_steps": 100,
    "print_samples_steps": 1000,
    "eval_steps": 1000,
    "save_checkpoint_steps": 1000,
    "num_checkpoints": 2,
    "average_mirrored": True,
    "best_metric": "Eval top-1",
    "best_metric_mode": "max",
    "logdir": "cifar10-resnet20",
    "dtype": "mixed",

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9, "use_nesterov": True},
    "lr_policy": cosine_decay,
    "lr_policy_params": {"learning_rate": 0.2, "warmup_steps": 400},
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 5e-4},

    "encoder": ResNetEncoder,
    "encoder_params": {"resnet_size": 20, "version": 1, "regularize_bn": False, "bn_momentum": 0.97},
    "decoder": FullyConnectedDecoder,
    "loss": CrossEntropyLoss,

    "data_layer": CifarDataLayer,
    "data_layer_params": {"data_dir": data_root + "cifar-10-batches-bin", "image_size": 32, "crop_padding": 4},
}

train_params = {}
eval_params = {"batch_size_per_gpu": 500}
infer_params = {"batch_size_per_gpu": 500}

# The same for images in the folders data/cifar10/train/<class>/ and data/cifar10/dev/<class>/:
#     "data_layer": ImageFolderDataLayer,
#     "data_layer_params": {"classes": [...], "image_size": 32, "resize_size": 32, "train_crop": "padded",
#                           "crop_padding": 4, "standardize": "image", "cache_images": True},
# and "folder": "data/cifar10/train" or "data/cifar10/dev" in the data_layer_params of each section.
