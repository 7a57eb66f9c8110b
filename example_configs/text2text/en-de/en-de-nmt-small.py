"""English to German, WMT: a small recurrent network.

Published: above 20 BLEU on newstest2014 (tokenised, multi-bleu).

Run:  python run.py --config_file=example_configs/text2text/en-de/en-de-nmt-small.py --mode=train_eval
"""
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_config = "en-de-gnmt-like-4GPUs.py"
num_units = emb_size = 512
decoder_layers = 2
skip_connections = False

base_params = {
    "batch_size_per_gpu": 128,  # sentence pairs
    "max_steps": 160082,
    "eval_steps": 1000,
    "save_checkpoint_steps": 2001,
    "logdir": "nmt-small-en-de",
    "lr_policy": "fixed_lr",
    "lr_policy_params": {"learning_rate": 0.001},
    "max_grad_norm": "<drop>",
    "larc_params": {"larc_eta": 0.001},
    "initializer": "glorot_uniform",

    "encoder": "BidirectionalRNNEncoderWithEmbedding",
    "encoder_params": {
        "src_emb_size": emb_size,
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": num_units, "forget_bias": 1.0},
        "encoder_layers": 2,
        "encoder_dp_input_keep_prob": 0.8,
        "encoder_dp_output_keep_prob": 1.0,
        "encoder_use_skip_connections": skip_connections,
    },

    "loss_params": {"average_across_timestep": False},
    "data_layer_params": {"pad_vocab_to_eight": "<drop>"},
}

eval_params = {"batch_size_per_gpu": 32, "data_layer_params": {"max_length": 50}}
infer_params = {"data_layer_params": {"max_length": 256}}
