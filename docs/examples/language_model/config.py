"""A language model of characters with carried state.

Data: python docs/examples/language_model/make_data.py --output_dir=toy_language
Run:  python run.py --config_file=docs/examples/language_model/config.py --mode=train_eval
"""

import os

_PARTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "parts.py")
data_root = "toy_language/"

base_model = _PARTS + ":LanguageModel"

base_params = {
    "batch_size_per_gpu": 16,
    "num_epochs": 8,
    "random_seed": 0,
    "logdir": "language_run",
    "print_loss_steps": 100,
    "save_checkpoint_steps": 100,
    "eval_steps": 200,
    "optimizer": "Adam",
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 0.005},
    "max_grad_norm": 1.0,
    "data_layer": _PARTS + ":CharacterStream",
    "data_layer_params": {"characters": data_root + "characters.txt", "steps": 20},
    "encoder": _PARTS + ":CarriedGru",
    "encoder_params": {"hidden_size": 96},
}

train_params = {"data_layer_params": {"text_file": data_root + "train.txt"}}
eval_params = {"data_layer_params": {"text_file": data_root + "dev.txt"}}
infer_params = {"data_layer_params": {"text_file": data_root + "dev.txt"}}
