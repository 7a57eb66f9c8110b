"""WikiText-2: an LSTM of two layers with tied weights and adaptive softmax, which two CPU cores can train.

The regularisation is that of AWD-LSTM, weaker, with Adam and a cosine schedule of eight epochs instead of averaged SGD
and hundreds. docs/language-models.md has the perplexities.

Data: wiki.train.tokens and wiki.valid.tokens in data/wikitext-2/.
Run:  python run.py --config_file=example_configs/lm/lstm-wkt2-small.py --mode=train_eval
Time: an hour on one core of an AMD EPYC with avx512_bf16
Score: perplexity 102.5 on the validation text; 82.9 with the neural cache (docs/language-models.md)
"""
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_model = "LanguageModel"

base_params = {
    "num_gpus": 1,
    "batch_size_per_gpu": 64,
    "eval_batch_size_per_gpu": 16,
    "num_epochs": 8,
    "print_loss_steps": 100,
    "print_samples_steps": 2000,
    "save_summaries_steps": 100,
    "save_checkpoint_steps": 500,
    "eval_steps": 930,
    "logdir": "lstm-wkt2-small",
    "random_seed": 0,
    "dtype": "mixed",

    "optimizer": "Adam",
    "optimizer_params": {"beta2": 0.99},
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 3e-3, "warmup_steps": 900},
    "max_grad_norm": 0.5,
    "activation_regularization": 2.0,
    "temporal_activation_regularization": 1.0,
    "best_metric": "perplexity",

    "encoder": "LMEncoder",
    "encoder_params": {
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": 800},
        "encoder_layers": 2,
        "emb_size": 400,
        "weight_tied": True,
        "awd_initializer": True,
        "variational_recurrent": True,
        "recurrent_weight_keep_prob": 0.8,
        "encoder_emb_keep_prob": 0.95,
        "embedding_dropout": "words",
        "encoder_dp_input_keep_prob": 0.75,
        "encoder_dp_output_keep_prob": 0.8,
        "encoder_last_output_keep_prob": 0.75,
        "adaptive_softmax": {"cutoffs": [4000, 12000], "factor": 1.0},
    },

    "decoder": "FakeDecoder",
    "loss": "BasicSequenceLoss",
    "loss_params": {"offset_target_by_one": False, "average_across_timestep": True},

    "data_layer": "WKTDataLayer",
    "data_layer_params": {
        "data_root": "data/wikitext-2",
        "processed_data_folder": "lstm-wkt2-small-processed-data",
        "bptt": 35,
        "carry_state": True,
        "random_bptt": True,
    },
}

train_params = {"data_layer_params": {"rand_start": True}}
