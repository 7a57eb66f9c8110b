"""Toy task: convolutions encode a line of letters, and a recurrent network writes it in reverse.

Run:  python run.py --config_file=example_configs/text2text/toy-reversal/nmt-reversal-CR.py --mode=train_eval
"""
from open_seq2seq.data.text2text.text2text import SpecialTextTokens
from open_seq2seq.parts.convs2s.utils import gated_linear_units

base_config = "nmt-reversal-RR.py"
num_layers = 2

base_params = {
    "max_steps": 1000,
    "save_summaries_steps": 50,
    "save_checkpoint_steps": 200,
    "logdir": "nmt-reversal-CR",
    "optimizer_params": {"epsilon": 1e-9},

    "encoder": "ConvS2SEncoder",
    "encoder_params": {
        "src_emb_size": 128,
        "pad_embeddings_2_eight": True,
        "att_layer_num": num_layers,
        "conv_nchannels_kwidth": [(128, 3)] * num_layers,
        "embedding_dropout_keep_prob": 0.9,
        "hidden_dropout_keep_prob": 0.9,
        "max_input_length": 100,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
        "conv_activation": gated_linear_units,
        "normalization_type": "weight_norm",
    },
    "loss_params": {"average_across_timestep": True},
}

infer_params = {"decoder_params": {"beam_width": 5}}
