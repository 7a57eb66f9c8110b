"""English to German, WMT: a network like GNMT (7 encoder layers and 8 decoder layers of 1024 units).

Published: 23.0 BLEU on newstest2014 (cased, detokenised, sacreBLEU), on four GPUs with 32 sentence pairs each.

Run:  python run.py --config_file=example_configs/text2text/en-de/en-de-gnmt-like-4GPUs.py --mode=train_eval
"""
from open_seq2seq.data.text2text.text2text import SpecialTextTokens
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_config = "transformer-big.py"
num_units = 1024
emb_size = num_units
encoder_layers, decoder_layers = 7, 8
skip_connections = True
cells = {"core_cell": LSTMCell, "core_cell_params": {"num_units": num_units, "forget_bias": 1.0}}

base_params = {
    "batch_size_per_gpu": 32,  # sentence pairs
    "max_steps": 340000,
    "save_summaries_steps": 50,
    "print_loss_steps": 48,
    "print_samples_steps": 48,
    "eval_steps": 4001,
    "logdir": "gnmt-like-en-de",
    "dtype": "float32",
    "loss_scaling": "<drop>",

    "optimizer": "Adam",
    "optimizer_params": {},
    "lr_policy": "exp_decay",
    "lr_policy_params": {"learning_rate": 0.0008, "begin_decay_at": 170000, "decay_steps": 17000, "decay_rate": 0.5,
                         "use_staircase_decay": True, "min_lr": 0.0000005},
    "max_grad_norm": 32768.0,
    "initializer": "random_uniform",
    "initializer_params": {"minval": -0.1, "maxval": 0.1},

    "encoder": "GNMTLikeEncoderWithEmbedding",
    "encoder_params": {
        **cells,
        "src_emb_size": emb_size,
        "encoder_layers": encoder_layers,
        "encoder_dp_input_keep_prob": 0.8,
        "encoder_dp_output_keep_prob": 1.0,
        "encoder_use_skip_connections": skip_connections,
    },

    "decoder": "RNNDecoderWithAttention",
    "decoder_params": {
        **cells,
        "tgt_emb_size": emb_size,
        "decoder_layers": decoder_layers,
        "decoder_dp_input_keep_prob": 0.8,
        "decoder_dp_output_keep_prob": 1.0,
        "decoder_use_skip_connections": skip_connections,
        "attention_type": "gnmt_v2",
        "attention_layer_size": num_units,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    },

    "loss": "BasicSequenceLoss",
    "loss_params": {"offset_target_by_one": True, "average_across_timestep": True, "do_mask": True},
}

train_params = {"data_layer_params": {"max_length": 50}}
eval_params = {"data_layer_params": {"max_length": 32}}
infer_params = {
    "decoder": "BeamSearchRNNDecoderWithAttention",
    "decoder_params": {"beam_width": 10, "length_penalty": 1.0},
    "data_layer_params": {"max_length": 512},
}
