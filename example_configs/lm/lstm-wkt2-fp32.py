"""WikiText-2: a recurrent language model, published with a perplexity of 89.9.

Published recipe; each chunk starts from a zero state, as published.
Data: wiki.train.tokens and wiki.valid.tokens in
data/wikitext-2/.
Run:  mpiexec -np 2 python run.py --config_file=example_configs/lm/lstm-wkt2-fp32.py --mode=train_eval
"""
from open_seq2seq.parts.rnn.core_cells import WeightDropLayerNormBasicLSTMCell

base_model = "LSTMLM"
steps = 40  # from one line of the log, summary, sample and checkpoint to the next

base_params = {
    "use_horovod": True,
    "batch_size_per_gpu": 160,
    "eval_batch_size_per_gpu": 160,
    "num_epochs": 1500,
    "save_summaries_steps": steps,
    "print_loss_steps": steps,
    "print_samples_steps": steps,
    "save_checkpoint_steps": steps,
    "eval_steps": 80,
    "logdir": "WKT2-CPT",
    "restore_best_checkpoint": True,
    "processed_data_folder": "wkt2-processed-data",
    "dtype": "float32",

    "optimizer": "Adam",
    "lr_policy": "fixed_lr",
    "lr_policy_params": {"learning_rate": 0.0004},
    "initializer": "random_uniform",
    "initializer_params": {"minval": -0.1, "maxval": 0.1},
    "regularizer": "l2_regularizer",
    "regularizer_params": {"scale": 2e-6},

    "encoder": "LMEncoder",
    "encoder_params": {
        "core_cell": WeightDropLayerNormBasicLSTMCell,
        "core_cell_params": {"num_units": 896, "forget_bias": 1.0},
        "encoder_layers": 3,
        "emb_size": 256,
        "encoder_use_skip_connections": False,
        "encoder_dp_output_keep_prob": 0.6,
        "encoder_last_output_keep_prob": 0.6,
        "encoder_emb_keep_prob": 0.37,
        "recurrent_keep_prob": 0.7,
        "weight_tied": True,
        "num_tokens_gen": 10,
    },

    "decoder": "FakeDecoder",
    "loss": "BasicSequenceLoss",
    "loss_params": {"offset_target_by_one": False, "average_across_timestep": True, "do_mask": False},

    "data_layer": "WKTDataLayer",
    "data_layer_params": {"data_root": "data/wikitext-2", "bptt": 96, "normalize": True, "repeat": True},
}

train_params = {"data_layer_params": {"rand_start": True}}
eval_params = {"data_layer_params": {"repeat": False}}
infer_params = {"data_layer_params": {"seed_tokens": "something The only game"}}
