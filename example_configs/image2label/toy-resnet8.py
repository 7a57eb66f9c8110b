"""Toy task: a ResNet of eight layers learns to distinguish circles, crosses, squares and triangles.

Data: python scripts/create_toy_images.py --output_dir=toy_image_data
Run:  python run.py --config_file=example_configs/image2label/toy-resnet8.py --mode=train_eval
"""
base_config = "own-images.py"
data_root = "toy_image_data/"
image_size = 28

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "num_epochs": 4,
    "save_summaries_steps": 50,
    "print_loss_steps": 20,
    "print_samples_steps": 100,
    "eval_steps": 60,
    "save_checkpoint_steps": 60,
    "num_checkpoints": "<drop>",
    "average_mirrored": "<drop>",
    "logdir": "toy-resnet8",
    "dtype": "float32",
    "optimizer_params": {"use_nesterov": "<drop>"},
    "regularizer_params": {"scale": 1e-4},
    "encoder_params": {
        "resnet_size": "<drop>",
        "version": 2,
        "block_sizes": [1, 1, 1],
        "first_num_filters": 8,
        "first_kernel_size": 3,
        "first_conv_stride": 1,
        "first_pool_size": 0,
        "regularize_bn": "<drop>",
    },
    "loss_params": "<drop>",
    "data_layer_params": {
        "class_file": "<drop>",
        "classes": ["circle", "cross", "square", "triangle"],
        "resize_size": 32,
        "crop_padding": "<drop>",
        "random_flip": "<drop>",
        "color_jitter": "<drop>",
    },
}

train_params = {"data_layer_params": {"dataset_files": "<drop>", "folder": data_root + "train"}}
eval_params = {"data_layer_params": {"dataset_files": "<drop>", "folder": data_root + "dev"}}
infer_params = {"data_layer_params": {"dataset_files": "<drop>", "folder": data_root + "dev"}}
