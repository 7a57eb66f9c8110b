"""WikiText-2: a small recurrent language model, for a test.

Published recipe; each chunk starts from a zero state, as published.
Data: wiki.train.tokens and wiki.valid.tokens in
data/wikitext-2/.
Run:  python run.py --config_file=example_configs/lm/lstm-test-small.py --mode=train_eval
"""
from open_seq2seq.data import WKTDataLayer
from open_seq2seq.decoders import FakeDecoder
from open_seq2seq.encoders import LMEncoder
from open_seq2seq.losses import BasicSequenceLoss
from open_seq2seq.models import LSTMLM
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import fixed_lr
from open_seq2seq.parts.rnn.core_cells import WeightDropLayerNormBasicLSTMCell

base_model = LSTMLM

base_params = {
    "use_horovod": False,
    "num_gpus": 2,
    "batch_size_per_gpu": 160,
    "eval_batch_size_per_gpu": 160,
    "num_epochs": 1500,
    "save_summaries_steps": 10,
    "print_loss_steps": 10,
    "print_samples_steps": 10,
    "save_checkpoint_steps": 10,
    "eval_steps": 20,
    "logdir": "LSTM-FP32-2GPU-SMALL",
    "restore_best_checkpoint": True,
    "processed_data_folder": "wkt2-processed-data",
    "dtype": "float32",

    "optimizer": "Adam",
    "lr_policy": fixed_lr,
    "lr_policy_params": {"learning_rate": 0.0009},
    "initializer": "random_uniform",
    "initializer_params": {"minval": -0.1, "maxval": 0.1},
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 2e-6},

    "encoder": LMEncoder,
    "encoder_params": {
        "core_cell": WeightDropLayerNormBasicLSTMCell,
        "core_cell_params": {"num_units": 128, "forget_bias": 1.0},
        "encoder_layers": 2,
        "emb_size": 64,
        "encoder_use_skip_connections": False,
        "encoder_dp_output_keep_prob": 0.6,
        "encoder_last_output_keep_prob": 0.6,
        "encoder_emb_keep_prob": 0.37,
        "recurrent_keep_prob": 0.7,
        "weight_tied": True,
        "num_tokens_gen": 200,
    },

    "decoder": FakeDecoder,

    "loss": BasicSequenceLoss,
    "loss_params": {"offset_target_by_one": False, "average_across_timestep": True, "do_mask": False},

    "data_layer": WKTDataLayer,
    "data_layer_params": {"data_root": "data/wikitext-2", "bptt": 12, "normalize": True, "repeat": True},
}

train_params = {"data_layer_params": {"rand_start": True}}

eval_params = {"data_layer_params": {"repeat": False}}

infer_params = {"data_layer_params": {"seed_tokens": "something The only game"}}
