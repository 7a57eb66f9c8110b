"""Toy task: convolutions learn to reverse a line of letters.

Run:  python run.py --config_file=example_configs/text2text/toy-reversal/nmt-reversal-CC.py --mode=train_eval
Time: six minutes of processor time
Score: BLEU above 95 on the development set; 99.4 has been observed
"""
from open_seq2seq.data.text2text.text2text import SpecialTextTokens
from open_seq2seq.parts.convs2s.utils import gated_linear_units

base_config = "nmt-reversal-RR.py"
d_model = 128
num_layers = 2
convolutions = {
    "pad_embeddings_2_eight": False,
    "conv_nchannels_kwidth": [(d_model, 3)] * num_layers,
    "embedding_dropout_keep_prob": 0.9,
    "hidden_dropout_keep_prob": 0.9,
    "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    "conv_activation": gated_linear_units,
    "normalization_type": "weight_norm",
}

base_params = {
    "max_steps": 1000,
    "save_summaries_steps": 50,
    "save_checkpoint_steps": 200,
    "logdir": "nmt-reversal-CC",
    "optimizer_params": {"epsilon": 1e-9},

    "encoder": "ConvS2SEncoder",
    "encoder_params": {**convolutions, "src_emb_size": d_model, "att_layer_num": num_layers, "max_input_length": 100},

    "decoder": "ConvS2SDecoder",
    "decoder_params": {
        **convolutions,
        "shared_embed": True,
        "tgt_emb_size": d_model,
        "out_emb_size": d_model,
        "pos_embed": True,
        "out_dropout_keep_prob": 0.9,
        "max_input_length": 120,
        "beam_size": 5,
        "alpha": 0.6,
        "extra_decode_length": 10,
        "EOS_ID": SpecialTextTokens.EOS_ID.value,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
    },
    "loss_params": {"average_across_timestep": True},
}
