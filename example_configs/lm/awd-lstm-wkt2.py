"""WikiText-2: AWD-LSTM with the sizes and the regularisation of its paper (Merity et al. 2018).

Weight drop, variational dropout, dropout of embeddings, tied weights, AR and TAR; chunks of random lengths, from one to
the next of which the hidden state is carried; averaged SGD, which begins when the validation loss no longer falls. The
model is evaluated about once per epoch. On CPUs a run takes days.

Data: wiki.train.tokens and wiki.valid.tokens in data/wikitext-2/.
Run:  python run.py --config_file=example_configs/lm/awd-lstm-wkt2.py --mode=train_eval
With the neural cache:
      python run.py --config_file=example_configs/lm/awd-lstm-wkt2.py --mode=eval
      --neural_cache='{size: 500, weight: 0.1, scale: 0.3}'
"""
base_config = "lstm-wkt2-small.py"
base_model = "LSTMLM"

base_params = {
    "batch_size_per_gpu": 80,
    "eval_batch_size_per_gpu": 10,
    "num_epochs": 500,
    "print_samples_steps": 1000,
    "save_checkpoint_steps": 382,
    "eval_steps": 382,
    "logdir": "awd-lstm-wkt2",
    "dtype": "float32",

    "optimizer": "SGD",
    "average_after_evals_without_gain": 5,
    "lr_policy": "fixed_lr",
    "lr_policy_params": {"learning_rate": 30.0},
    "max_grad_norm": 0.25,
    "regularizer": "l2_regularizer",
    "regularizer_params": {"scale": 1.2e-6},
    "best_metric": "<drop>",

    "encoder_params": {
        "core_cell_params": {"num_units": 1150},
        "encoder_layers": 3,
        "recurrent_weight_keep_prob": 0.5,
        "encoder_emb_keep_prob": 0.9,
        "encoder_dp_input_keep_prob": "<drop>",
        "encoder_last_output_keep_prob": 0.6,
        "adaptive_softmax": "<drop>",
    },
    "data_layer_params": {"processed_data_folder": "awd-processed-data", "bptt": 70},
}
