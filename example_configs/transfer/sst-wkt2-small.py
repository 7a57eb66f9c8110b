"""Stanford Sentiment Treebank: sentiment by the encoder of a small language model.

Published recipe. Train lm/lstm-test-small.py first, with
--encoder_params/encoder_layers=3: as published, it has only two layers.
Data: data/sst/.
Run:  python run.py --config_file=example_configs/transfer/sst-wkt2-small.py --mode=train_eval
"""
from open_seq2seq.data import SSTDataLayer
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
    "num_gpus": 1,
    "batch_size_per_gpu": 20,
    "eval_batch_size_per_gpu": 80,
    "num_epochs": 120,
    "save_summaries_steps": 10,
    "print_loss_steps": 10,
    "print_samples_steps": 10,
    "save_checkpoint_steps": 10,
    "eval_steps": 10,
    "logdir": "SST-WKT2-SMALL",
    "load_model": "LSTM-FP32-2GPU-SMALL",
    "restore_best_checkpoint": True,
    "lm_vocab_file": "wkt2-processed-data/vocab.txt",
    "dtype": "float32",

    "optimizer": "Adam",
    "lr_policy": fixed_lr,
    "lr_policy_params": {"learning_rate": 0.0001},
    "initializer": "random_uniform",
    "initializer_params": {"minval": -0.1, "maxval": 0.1},
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 2e-06},

    "encoder": LMEncoder,
    "encoder_params": {
        "core_cell": WeightDropLayerNormBasicLSTMCell,
        "core_cell_params": {"num_units": 128, "forget_bias": 1.0},
        "encoder_layers": 3,
        "emb_size": 64,
        "encoder_use_skip_connections": False,
        "encoder_dp_output_keep_prob": 0.8,
        "encoder_last_output_keep_prob": 0.8,
        "encoder_emb_keep_prob": 0.7,
        "recurrent_keep_prob": 1.0,
        "weight_tied": True,
        "use_cell_state": True,
    },

    "decoder": FakeDecoder,

    "loss": CrossEntropyLoss,

    "data_layer": SSTDataLayer,
    "data_layer_params": {
        "data_root": "data/sst",
        "processed_data_folder": "sst-wkt2-small-processed-data",
        "max_length": 96,
        "binary": True,
    },
}

train_params = {"data_layer_params": {"shuffle": True, "repeat": True}}

eval_params = {"data_layer_params": {"shuffle": False, "repeat": False}}

infer_params = {"data_layer_params": {"shuffle": False, "repeat": False}}
