"""A config that names parts of its own; they lie in the file beside it."""

import os

_PARTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "own_parts.py")

base_model = _PARTS + ":MajorityModel"

base_params = {
    "batch_size_per_gpu": 32,
    "max_steps": 200,
    "random_seed": 1,
    "logdir": "majority_run",
    "print_loss_steps": 50,
    "save_checkpoint_steps": 50,
    "eval_steps": 100,
    "optimizer": "Adam",
    "lr_policy": "fixed_lr",
    "lr_policy_params": {"learning_rate": 0.01},
    "data_layer": _PARTS + ":MajorityData",
    "data_layer_params": {"num_symbols": 6},
    "encoder": _PARTS + ":BagEncoder",
    "encoder_params": {"num_symbols": 6, "hidden_size": 32},
    "decoder": _PARTS + ":SymbolDecoder",
    "decoder_params": {"num_symbols": 6, "hidden_size": 32},
    "loss": _PARTS + ":SymbolLoss",
}

train_params = {"data_layer_params": {"shuffle": True}}
