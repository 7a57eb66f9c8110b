"""IMDB reviews: sentiment by the encoder of a language model with the layers of cuDNN.

Published recipe. Train lm/lstm-test-small-cudnn.py first, with
--encoder_params/emb_size=256 --encoder_params/encoder_layers=3: as published, the two recipes have different sizes.
Data: data/aclImdb/.
Run:  python run.py --config_file=example_configs/transfer/imdb-wkt2-cudnn.py --mode=train_eval
"""
from open_seq2seq.data import IMDBDataLayer
from open_seq2seq.decoders import FakeDecoder
from open_seq2seq.encoders import LMEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import LSTMLM
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import fixed_lr

base_model = LSTMLM

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 16,
    "eval_batch_size_per_gpu": 64,
    "num_epochs": 100,
    "save_summaries_steps": 10,
    "print_loss_steps": 10,
    "print_samples_steps": 10,
    "save_checkpoint_steps": 10,
    "eval_steps": 10,
    "logdir": "IMDB-WKT2-CUDNN",
    "load_model": "LSTM-FP32-2GPU-SMALL-CUDNN",
    "restore_best_checkpoint": True,
    "lm_vocab_file": "wkt2-processed-data/vocab.txt",
    "dtype": "mixed",
    "loss_scaling": "Backoff",

    "optimizer": "Adam",
    "lr_policy": fixed_lr,
    "lr_policy_params": {"learning_rate": 0.0001},
    "initializer": "random_uniform",
    "initializer_params": {"minval": -0.1, "maxval": 0.1},
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 2e-06},

    "encoder": LMEncoder,
    "encoder_params": {
        "use_cudnn_rnn": True,
        "cudnn_rnn_type": "CudnnLSTM",
        "encoder_layers": 3,
        "emb_size": 256,
        "encoder_use_skip_connections": False,
        "encoder_dp_output_keep_prob": 0.8,
        "encoder_last_output_keep_prob": 0.8,
        "encoder_emb_keep_prob": 0.6,
        "recurrent_keep_prob": 1.0,
        "weight_tied": True,
        "use_cell_state": False,
    },

    "decoder": FakeDecoder,

    "loss": CrossEntropyLoss,

    "data_layer": IMDBDataLayer,
    "data_layer_params": {
        "data_root": "data/aclImdb",
        "processed_data_folder": "imdb-wkt2-cudnn-processed-data",
        "max_length": 256,
        "binary": True,
    },
}

train_params = {"data_layer_params": {"shuffle": True, "repeat": True}}

eval_params = {"data_layer_params": {"shuffle": False, "repeat": False}}

infer_params = {"data_layer_params": {"shuffle": False, "repeat": False}}
