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
from open_seq2seq.data import WKTDataLayer
from open_seq2seq.decoders import FakeDecoder
from open_seq2seq.encoders import LMEncoder
from open_seq2seq.losses import BasicSequenceLoss
from open_seq2seq.models import LSTMLM
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.optimizers.lr_policies import fixed_lr
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_model = LSTMLM

base_params = {
    "num_gpus": 1,
    "batch_size_per_gpu": 80,
    "eval_batch_size_per_gpu": 10,
    "num_epochs": 500,
    "print_loss_steps": 100,
    "print_samples_steps": 1000,
    "save_summaries_steps": 100,
    "save_checkpoint_steps": 382,
    "eval_steps": 382,
    "logdir": "awd-lstm-wkt2",
    "random_seed": 0,
    "dtype": "float32",

    "optimizer": "SGD",
    "average_after_evals_without_gain": 5,
    "lr_policy": fixed_lr,
    "lr_policy_params": {"learning_rate": 30.0},
    "max_grad_norm": 0.25,
    "regularizer": l2_regularizer,
    "regularizer_params": {"scale": 1.2e-6},
    "activation_regularization": 2.0,
    "temporal_activation_regularization": 1.0,

    "encoder": LMEncoder,
    "encoder_params": {
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": 1150},
        "encoder_layers": 3,
        "emb_size": 400,
        "weight_tied": True,
        "awd_initializer": True,
        "variational_recurrent": True,
        "recurrent_weight_keep_prob": 0.5,
        "embedding_dropout": "words",
        "encoder_emb_keep_prob": 0.9,
        "encoder_dp_output_keep_prob": 0.8,
        "encoder_last_output_keep_prob": 0.6,
    },

    "decoder": FakeDecoder,

    "loss": BasicSequenceLoss,
    "loss_params": {"offset_target_by_one": False, "average_across_timestep": True},

    "data_layer": WKTDataLayer,
    "data_layer_params": {
        "data_root": "data/wikitext-2",
        "processed_data_folder": "awd-processed-data",
        "bptt": 70,
        "carry_state": True,
        "random_bptt": True,
    },
}

train_params = {"data_layer_params": {"rand_start": True}}
