"""Pictures of four shapes, or any pictures in folders named after their classes.

Data: python docs/examples/images/make_data.py --output_dir=toy_images
Run:  python run.py --config_file=docs/examples/images/config.py --mode=train_eval
"""

import os

_PARTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "parts.py")
data_root = "toy_images/"

base_model = _PARTS + ":ImageClassifier"

base_params = {
    "batch_size_per_gpu": 32,
    "num_epochs": 6,
    "random_seed": 0,
    "logdir": "images_run",
    "print_loss_steps": 50,
    "print_samples_steps": 100,
    "save_summaries_steps": 50,
    "save_checkpoint_steps": 100,
    "eval_steps": 100,
    "best_metric": "accuracy",
    "best_metric_mode": "max",
    "optimizer": "Adam",
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 0.003},
    "data_layer": _PARTS + ":ImageFolder",
    "data_layer_params": {"classes": ["circle", "cross", "square", "triangle"]},
    "encoder": _PARTS + ":ConvNet",
    "encoder_params": {"channels": [16, 32, 64]},
    "head": _PARTS + ":Head",
}

train_params = {"data_layer_params": {"folder": data_root + "train"}}
eval_params = {"data_layer_params": {"folder": data_root + "dev"}}
infer_params = {"data_layer_params": {"folder": data_root + "dev"}}
