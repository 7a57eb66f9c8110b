"""Toy task: a small LSTM learns a made-up language whose lowest possible perplexity is known.

The hidden state is carried from chunk to chunk, in training and in evaluation.

Data: python scripts/create_toy_text.py --output_dir=toy_text_lm
Run:  python run.py --config_file=example_configs/lm/toy-lm.py --mode=train_eval
"""
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_model = "LSTMLM"

base_params = {
    "num_gpus": 1,
    "batch_size_per_gpu": 16,
    "eval_batch_size_per_gpu": 1,
    "max_steps": 400,
    "print_loss_steps": 50,
    "print_samples_steps": 200,
    "eval_steps": 100,
    "save_checkpoint_steps": 200,
    "logdir": "toy-lm",
    "random_seed": 0,
    "dtype": "float32",

    "optimizer": "Adam",
    "lr_policy": "fixed_lr",
    "lr_policy_params": {"learning_rate": 1e-2},
    "max_grad_norm": 1.0,

    "encoder": "LMEncoder",
    "encoder_params": {
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": 64},
        "encoder_layers": 1,
        "emb_size": 32,
        "encoder_last_output_keep_prob": 0.9,
        "num_tokens_gen": 20,
    },

    "decoder": "FakeDecoder",
    "loss": "BasicSequenceLoss",
    "loss_params": {"offset_target_by_one": False, "average_across_timestep": True},

    "data_layer": "WKTDataLayer",
    "data_layer_params": {
        "data_root": "toy_text_lm",
        "processed_data_folder": "toy_text_lm/processed",
        "bptt": 16,
        "carry_state": True,
        "min_count": 1,
    },
}

infer_params = {
    "encoder_params": {"sampling_temperature": 1.0},
    "data_layer_params": {"seed_tokens": "bade fifi"},
}
