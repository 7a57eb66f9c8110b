"""Your own pictures: a small ResNet, which two CPU cores train in minutes on some hundred to some thousand pictures.

Data: python scripts/prepare_images.py --folder=pictures --output_dir=own_images
Run:  python run.py --config_file=example_configs/image2label/own-images.py --mode=train_eval
Time: 1.7 minutes of processor time for 500 pictures of 32 × 32 pixels
Score: accuracy 42.9 % with 50 pictures of each class of CIFAR-10 (docs/own-images.md)

docs/own-images.md describes every step, from folders of pictures to predictions by name.
"""
import os

# The five things to choose, in a config of your own that names this one as its base_config:
data_dir = "own_images/"        # 1. --output_dir of prepare_images.py
image_size = 64                 # 2. pixels that the network sees, a multiple of 32; prepare_images.py suggests it
random_flip = True              # 3. False if a mirrored picture is of another class, as with letters
batch_size = 32                 # 4. pictures in a batch
num_epochs = 40                 # 5. passes over train: fewer for more than some thousand pictures

stride = image_size // 32  # after the first convolution, all pictures have 32 × 32 positions

base_model = "Image2Label"

base_params = {
    "batch_size_per_gpu": batch_size,
    "num_epochs": num_epochs,
    "save_summaries_steps": 100,
    "print_loss_steps": 50,
    "print_samples_steps": None,
    "eval_steps": 250,
    "save_checkpoint_steps": 250,
    "num_checkpoints": 2,
    "average_mirrored": random_flip,
    "best_metric": "Eval top-1",
    "best_metric_mode": "max",
    "logdir": "own-images-model",
    "random_seed": 0,
    "dtype": "mixed",

    "optimizer": "Momentum",
    "optimizer_params": {"momentum": 0.9, "use_nesterov": True},
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 0.05},
    "regularizer": "l2_regularizer",
    "regularizer_params": {"scale": 5e-4},

    "encoder": "ResNetEncoder",
    "encoder_params": {
        "resnet_size": 20,
        "version": 1,
        "first_kernel_size": 2 * stride + 1,
        "first_conv_stride": stride,
        "regularize_bn": False,
        "bn_momentum": 0.9,
    },
    "decoder": "FullyConnectedDecoder",
    "loss": "CrossEntropyLoss",
    "loss_params": {"label_smoothing": 0.1},

    "data_layer": "ImageFolderDataLayer",
    "data_layer_params": {
        "class_file": os.path.join(data_dir, "classes.txt"),
        "image_size": image_size,
        "resize_size": image_size,
        "train_crop": "padded",
        "crop_padding": image_size // 8,
        "random_flip": random_flip,
        "color_jitter": 0.2,
        "standardize": "image",
        "cache_images": True,
    },
}

train_params = {"data_layer_params": {"dataset_files": [os.path.join(data_dir, "train.csv")]}}
eval_params = {
    "batch_size_per_gpu": 100,
    "data_layer_params": {"dataset_files": [os.path.join(data_dir, "dev.csv")]},
}
infer_params = {
    "batch_size_per_gpu": 100,
    "data_layer_params": {"dataset_files": [os.path.join(data_dir, "test.csv")]},
}
