"""English to German, WMT: convolutional sequence to sequence learning (ConvS2S).

Published: 25.0 BLEU on newstest2014 (cased, detokenised, sacreBLEU) after 310000 steps on 8 GPUs, with 64 sentence
pairs each.

iter_size 8 makes the same update as 8 GPUs. Positions from max_input_length on share one embedding:
sources in inference may be longer than in training.

Run:  python run.py --config_file=example_configs/text2text/en-de/convs2s-8-gpu.py --mode=train_eval
"""
from open_seq2seq.data.text2text.text2text import SpecialTextTokens
from open_seq2seq.parts.convs2s.utils import gated_linear_units

base_config = "transformer-big.py"
d_model = 512
max_length = 64
conv_layers = [(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2
keep_prob = 0.8
convolutions = {
    "pad_embeddings_2_eight": True,
    "conv_nchannels_kwidth": conv_layers,
    "embedding_dropout_keep_prob": keep_prob,
    "hidden_dropout_keep_prob": keep_prob,
    "max_input_length": max_length,
    "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    "conv_activation": gated_linear_units,
    "normalization_type": "weight_norm",
    "scaling_factor": 0.5 ** 0.5,
}

base_params = {
    "batch_size_per_gpu": 64,  # sentence pairs
    "max_steps": 310000,
    "logdir": "convs2s-en-de",
    "dtype": "float32",
    "loss_scaling": "<drop>",

    "optimizer": "Adam",
    "optimizer_params": {},
    "max_grad_norm": 0.1,
    "lr_policy_params": {"learning_rate": 9, "max_lr": 1e-3, "warmup_steps": 4000},

    "encoder": "ConvS2SEncoder",
    "encoder_params": {**convolutions, "src_emb_size": d_model, "att_layer_num": len(conv_layers)},

    "decoder": "ConvS2SDecoder",
    "decoder_params": {
        **convolutions,
        "shared_embed": True,
        "tgt_emb_size": d_model,
        "out_emb_size": d_model,
        "pos_embed": False,
        "out_dropout_keep_prob": keep_prob,
        "beam_size": 5,
        "alpha": 0.6,
        "extra_decode_length": 56,
        "EOS_ID": SpecialTextTokens.EOS_ID.value,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
    },

    "loss": "BasicSequenceLoss",
    "loss_params": {"offset_target_by_one": True, "average_across_timestep": True, "do_mask": True},
}

train_params = {"data_layer_params": {"max_length": max_length}}
eval_params = {"batch_size_per_gpu": 64, "data_layer_params": {"max_length": max_length}}
infer_params = {"data_layer_params": {"max_length": 2 * max_length}}
