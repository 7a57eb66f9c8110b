"""English to German on Multi30k: a small ConvS2S that two CPU cores can train.

With half the learning rate, the training loss is 3.58 instead of 3.12 after 300 updates.
Data and learning rate are those of gnmt-multi30k.py.

Run:  python run.py --config_file=example_configs/text2text/en-de/convs2s-multi30k.py --mode=train_eval
Time: 45 minutes in float32 on two cores of an AMD EPYC
Score: 38.1 BLEU on test_2016_flickr (docs/translation.md)
"""
from open_seq2seq.data.text2text.text2text import SpecialTextTokens
from open_seq2seq.parts.convs2s.utils import gated_linear_units

base_config = "gnmt-multi30k.py"
d_model = 256
num_layers = 4
keep_prob = 0.7
max_length = 100
max_steps = 3000
convolutions = {
    "conv_nchannels_kwidth": [(d_model, 3)] * num_layers,
    "embedding_dropout_keep_prob": keep_prob,
    "hidden_dropout_keep_prob": keep_prob,
    "max_input_length": max_length,
    "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    "conv_activation": gated_linear_units,
    "normalization_type": "weight_norm",
}

base_params = {
    "logdir": "convs2s-multi30k-en-de",
    "max_grad_norm": 1.0,

    "encoder": "ConvS2SEncoder",
    "encoder_params": {
        **convolutions,
        "src_emb_size": d_model,
        "att_layer_num": num_layers,
        "pad_embeddings_2_eight": True,
    },

    "decoder": "ConvS2SDecoder",
    "decoder_params": {
        **convolutions,
        "tgt_emb_size": d_model,
        "out_emb_size": d_model,
        "shared_embed": True,
        "pos_embed": True,
        "out_dropout_keep_prob": keep_prob,
        "beam_size": 4,
        "alpha": 0.6,
        "extra_decode_length": 50,
        "EOS_ID": SpecialTextTokens.EOS_ID.value,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
    },
}
