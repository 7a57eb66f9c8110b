"""IMDB reviews: sentiment by the encoder of lm/lstm-imdb-small.py, which has to be trained first.

The classifier reads the maximum and the mean of the encoder's states. Whole words are dropped from the embeddings, and
evaluation uses the mean of the weights since the middle of training. docs/language-models.md has the accuracies.

Data: data/aclImdb/.
Run:  python run.py --config_file=example_configs/transfer/imdb-small.py --mode=train_eval
"""
from open_seq2seq.data import IMDBDataLayer
from open_seq2seq.decoders import SoftmaxDecoder
from open_seq2seq.encoders import LMEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import LSTMLM
from open_seq2seq.optimizers.lr_policies import cosine_decay
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_model = LSTMLM

base_params = {
    "num_gpus": 1,
    "batch_size_per_gpu": 32,
    "eval_batch_size_per_gpu": 32,
    "num_epochs": 3,
    "random_seed": 0,
    "print_loss_steps": 50,
    "print_samples_steps": None,
    "save_summaries_steps": 50,
    "save_checkpoint_steps": 594,
    "eval_steps": 594,
    "logdir": "imdb-small",
    "load_model": "lstm-imdb-small",
    "lm_vocab_file": "lstm-imdb-small-processed-data/vocab.txt",
    "best_metric": "Eval_accuracy",
    "best_metric_mode": "max",
    "restore_best_checkpoint": True,
    "dtype": "mixed",

    "optimizer": "Adam",
    "lr_policy": cosine_decay,
    "lr_policy_params": {"learning_rate": 2e-3, "warmup_steps": 150},
    "max_grad_norm": 1.0,
    "average_from": 900,

    "encoder": LMEncoder,
    "encoder_params": {
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": 800},
        "encoder_layers": 2,
        "emb_size": 400,
        "weight_tied": True,
        "variational_recurrent": True,
        "recurrent_weight_keep_prob": 0.8,
        "encoder_emb_keep_prob": 0.7,
        "embedding_dropout": "words",
        "encoder_dp_input_keep_prob": 0.8,
        "encoder_dp_output_keep_prob": 0.8,
        "encoder_last_output_keep_prob": 0.8,
    },

    "decoder": SoftmaxDecoder,
    "decoder_params": {"pooling": ["max", "mean"], "dropout": 0.5},

    "loss": CrossEntropyLoss,

    "data_layer": IMDBDataLayer,
    "data_layer_params": {
        "data_root": "data/aclImdb",
        "max_length": 400,
    },
}

train_params = {"data_layer_params": {"shuffle": True}}
