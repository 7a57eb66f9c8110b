"""Toy task: a recurrent network with attention learns to reverse a line of letters.

Run:  python run.py --config_file=example_configs/text2text/toy-reversal/nmt-reversal-RR.py --mode=train_eval
"""
from open_seq2seq.data.text2text.text2text import SpecialTextTokens
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_config = "nmt-reversal-TT.py"
num_units = 128
num_layers = 1
cells = {"core_cell": LSTMCell, "core_cell_params": {"num_units": num_units, "forget_bias": 1.0}}

base_params = {
    "save_summaries_steps": 10,
    "logdir": "nmt-reversal-RR",

    "optimizer": "Adam",
    "optimizer_params": {"epsilon": 1e-4},
    "lr_policy": "fixed_lr",
    "lr_policy_params": {"learning_rate": 1e-3},
    "max_grad_norm": 3.0,

    "encoder": "BidirectionalRNNEncoderWithEmbedding",
    "encoder_params": {
        **cells,
        "encoder_layers": num_layers,
        "encoder_dp_input_keep_prob": 0.8,
        "encoder_dp_output_keep_prob": 1.0,
        "encoder_use_skip_connections": False,
        "src_emb_size": num_units,
    },

    "decoder": "RNNDecoderWithAttention",
    "decoder_params": {
        **cells,
        "decoder_layers": num_layers,
        "decoder_dp_input_keep_prob": 0.8,
        "decoder_dp_output_keep_prob": 1.0,
        "decoder_use_skip_connections": False,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
        "tgt_emb_size": num_units,
        "attention_type": "luong",
        "luong_scale": False,
        "attention_layer_size": num_units,
    },

    "loss": "BasicSequenceLoss",
    "loss_params": {"offset_target_by_one": True, "average_across_timestep": False, "do_mask": True},
    "data_layer_params": {"use_start_token": "<drop>"},
}

infer_params = {
    "decoder": "BeamSearchRNNDecoderWithAttention",
    "decoder_params": {"beam_width": 10, "length_penalty": 1.0},
}
