"""ResNet-20 (He et al. 2015, https://arxiv.org/abs/1512.03385) for CIFAR-10, which two CPU cores can train.

The paper reports 91.25 % after 182 epochs. Images are padded by 4 pixels, cropped at random and mirrored at random.
Evaluation averages the predictions for each image and its mirror image. docs/image-classification.md has the
accuracies.

Data: data_root/cifar-10-batches-bin, the unpacked binary files of CIFAR-10. For folders of JPEG or PNG files,
      see the end of this file.
Run:  python run.py --config_file=example_configs/image2label/cifar10-resnet20.py --mode=train_eval
Time: 57 minutes, at the speed measured on two cores of an AMD EPYC with avx512_bf16
Score: accuracy 88.1 % on 5,000 test images, as JPEG files (docs/image-classification.md)
"""
base_config = "own-images.py"
data_root = "data/"

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 128,
    "num_epochs": 70,
    "save_summaries_steps": 200,
    "print_loss_steps": 100,
    "print_samples_steps": 1000,
    "eval_steps": 1000,
    "save_checkpoint_steps": 1000,
    "logdir": "cifar10-resnet20",
    "lr_policy_params": {"learning_rate": 0.2, "warmup_steps": 400},
    "encoder_params": {"first_kernel_size": "<drop>", "first_conv_stride": "<drop>", "bn_momentum": 0.97},
    "loss_params": "<drop>",
    "data_layer": "CifarDataLayer",
    "data_layer_params": {"data_dir": data_root + "cifar-10-batches-bin", "image_size": 32, "crop_padding": 4},
}

eval_params = {"batch_size_per_gpu": 500}
infer_params = {"batch_size_per_gpu": 500}

# The same for images in the folders data/cifar10/train/<class>/ and data/cifar10/dev/<class>/, in a config whose
# base_config is this one:
#     "data_layer": "ImageFolderDataLayer",
#     "data_layer_params": {"classes": [...], "image_size": 32, "resize_size": 32, "train_crop": "padded",
#                           "crop_padding": 4, "standardize": "image", "cache_images": True},
# and "folder": "data/cifar10/train" or "data/cifar10/dev" in the data_layer_params of each section.
