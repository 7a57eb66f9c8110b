"""Stanford Sentiment Treebank: sentiment by a small LSTM, without a language model, which two CPU cores can train.

Evaluation uses the mean of the weights since the middle of training.
docs/language-models.md has the accuracies of this recipe and of the one with transfer, sst-imdb-small.py.

Data: data/sst/ with train, val and test as .tsv (label and sentence) or .txt (trees).
Run:  python run.py --config_file=example_configs/transfer/sst-scratch-small.py --mode=train_eval
"""
from open_seq2seq.data import SSTDataLayer
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
    "eval_batch_size_per_gpu": 64,
    "num_epochs": 8,
    "random_seed": 0,
    "print_loss_steps": 50,
    "print_samples_steps": None,
    "save_summaries_steps": 50,
    "save_checkpoint_steps": 390,
    "eval_steps": 390,
    "logdir": "sst-scratch-small",
    "best_metric": "Eval_accuracy",
    "best_metric_mode": "max",
    "restore_best_checkpoint": True,
    "dtype": "mixed",

    "optimizer": "Adam",
    "lr_policy": cosine_decay,
    "lr_policy_params": {"learning_rate": 3e-3, "warmup_steps": 100},
    "max_grad_norm": 1.0,
    "average_from": 780,

    "encoder": LMEncoder,
    "encoder_params": {
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": 300},
        "encoder_layers": 1,
        "emb_size": 300,
        "embedding_dropout": "words",
        "encoder_emb_keep_prob": 0.35,
        "encoder_dp_input_keep_prob": 0.5,
        "encoder_last_output_keep_prob": 0.5,
        "variational_recurrent": True,
    },

    "decoder": SoftmaxDecoder,
    "decoder_params": {"pooling": ["max", "mean"], "dropout": 0.5},

    "loss": CrossEntropyLoss,

    "data_layer": SSTDataLayer,
    "data_layer_params": {
        "data_root": "data/sst",
        "processed_data_folder": "sst-scratch-small-processed-data",
        "min_count": 2,
        "max_length": 96,
    },
}

train_params = {"data_layer_params": {"shuffle": True}}
