"""IMDB reviews: sentiment by a recurrent network, without a language model.

Published recipe. The vocabulary is that of lm/lstm-wkt2-fp32.py, which has to be trained first.
Data: data/aclImdb/.
Run:  python run.py --config_file=example_configs/transfer/imdb-from-scratch.py --mode=train_eval
"""
from open_seq2seq.data import IMDBDataLayer
from open_seq2seq.decoders import FakeDecoder
from open_seq2seq.encoders import LMEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import LSTMLM
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import fixed_lr
from open_seq2seq.parts.rnn.core_cells import WeightDropLayerNormBasicLSTMCell

base_model = LSTMLM

base_params = {
    "use_horovod": False,
    "num_gpus": 2,
    "batch_size_per_gpu": 160,
    "num_epochs": 1500,
    "save_summaries_steps": 40,
    "print_loss_steps": 40,
    "print_samples_steps": 40,
    "save_checkpoint_steps": 40,
    "eval_steps": 80,
    "logdir": "IMDB-FROM-SCRATCH",
    "restore_best_checkpoint": True,
    "lm_vocab_file": "wkt2-processed-data/vocab.txt",
    "dtype": "float32",

    "optimizer": "Adam",
    "lr_policy": fixed_lr,
    "lr_policy_params": {"learning_rate": 0.0009},
    "initializer": "random_uniform",
    "initializer_params": {"minval": -0.1, "maxval": 0.1},
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 2e-06},

    "encoder": LMEncoder,
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
        "use_cell_state": False,
    },

    "decoder": FakeDecoder,

    "loss": CrossEntropyLoss,

    "data_layer": IMDBDataLayer,
    "data_layer_params": {
        "data_root": "data/aclImdb",
        "processed_data_folder": "imdb-from-scratch-processed-data",
        "max_length": 256,
        "binary": True,
    },
}

train_params = {"data_layer_params": {"shuffle": True, "repeat": True}}

eval_params = {"data_layer_params": {"shuffle": False, "repeat": False}}

infer_params = {"data_layer_params": {"shuffle": False, "repeat": False}}
