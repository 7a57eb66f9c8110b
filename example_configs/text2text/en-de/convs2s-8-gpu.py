"""English to German, WMT: convolutional sequence to sequence learning (ConvS2S).

Published: 25.0 BLEU on newstest2014 (cased, detokenised, sacreBLEU) after 310000 steps on 8 GPUs.

Data: Europarl v7, Common Crawl and News Commentary v11, encoded with a joint SentencePiece
model of 32768 pieces. scripts/prepare_wmt.py prepares them from the downloaded files.
Run:  python run.py --config_file=example_configs/text2text/en-de/convs2s-8-gpu.py --mode=train_eval

The published recipe ran through Horovod (use_horovod True) on 8 GPUs, with 64 sentence pairs each; this config has
the same values but runs on one device. iter_size 8 makes the same update as 8 GPUs. Positions from max_input_length on
share one embedding: sources in inference may be longer than in training.
"""
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, SpecialTextTokens
from open_seq2seq.decoders import ConvS2SDecoder
from open_seq2seq.encoders import ConvS2SEncoder
from open_seq2seq.losses import BasicSequenceLoss
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import transformer_policy
from open_seq2seq.parts.convs2s.utils import gated_linear_units

base_model = Text2Text
data_root = "wmt16_de_en/"
d_model = 512
max_length = 64
conv_layers = [(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2
keep_prob = 0.8
scaling_factor = 0.5 ** 0.5

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 64,  # sentence pairs
    "max_steps": 310000,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": 100,
    "eval_steps": 4000,
    "save_checkpoint_steps": 4000,
    "logdir": "convs2s-en-de",
    "dtype": "float32",

    "optimizer": "Adam",
    "optimizer_params": {},
    "max_grad_norm": 0.1,
    "lr_policy": transformer_policy,
    "lr_policy_params": {"learning_rate": 9, "max_lr": 1e-3, "warmup_steps": 4000, "d_model": d_model},

    "encoder": ConvS2SEncoder,
    "encoder_params": {
        "src_emb_size": d_model,
        "pad_embeddings_2_eight": True,
        "att_layer_num": len(conv_layers),
        "conv_nchannels_kwidth": conv_layers,
        "embedding_dropout_keep_prob": keep_prob,
        "hidden_dropout_keep_prob": keep_prob,
        "max_input_length": max_length,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
        "conv_activation": gated_linear_units,
        "normalization_type": "weight_norm",
        "scaling_factor": scaling_factor,
    },

    "decoder": ConvS2SDecoder,
    "decoder_params": {
        "shared_embed": True,
        "tgt_emb_size": d_model,
        "pad_embeddings_2_eight": True,
        "out_emb_size": d_model,
        "pos_embed": False,
        "conv_nchannels_kwidth": conv_layers,
        "embedding_dropout_keep_prob": keep_prob,
        "hidden_dropout_keep_prob": keep_prob,
        "out_dropout_keep_prob": keep_prob,
        "max_input_length": max_length,
        "conv_activation": gated_linear_units,
        "normalization_type": "weight_norm",
        "scaling_factor": scaling_factor,
        "beam_size": 5,
        "alpha": 0.6,
        "extra_decode_length": 56,
        "EOS_ID": SpecialTextTokens.EOS_ID.value,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    },

    "loss": BasicSequenceLoss,
    "loss_params": {"offset_target_by_one": True, "average_across_timestep": True, "do_mask": True},

    "data_layer": ParallelTextDataLayer,
    "data_layer_params": {
        "src_vocab_file": data_root + "m_common.vocab",
        "tgt_vocab_file": data_root + "m_common.vocab",
        "pad_vocab_to_eight": True,
        # Evaluates and writes text; the published recipe wrote pieces and joined them with tokenizer_wrapper.py.
        "detokenize": True,
        "delimiter": " ",
    },
}

train_params = {
    "data_layer_params": {
        "source_file": data_root + "train.clean.en.shuffled.BPE_common.32K.tok",
        "target_file": data_root + "train.clean.de.shuffled.BPE_common.32K.tok",
        "shuffle": True,
        "repeat": True,
        "length_buckets": False,  # as published; buckets, with batch_size_unit "tokens", need less padding
        "max_length": max_length,
    },
}

eval_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {
        "source_file": data_root + "wmt13-en-de.src.BPE_common.32K.tok",
        "target_file": data_root + "wmt13-en-de.ref.BPE_common.32K.tok",
        "shuffle": False,
        "repeat": False,
        "max_length": max_length,
    },
}

infer_params = {
    "batch_size_per_gpu": 1,
    "data_layer_params": {
        "source_file": data_root + "wmt14-en-de.src.BPE_common.32K.tok",
        "shuffle": False,
        "repeat": False,
        "max_length": 2 * max_length,
    },
}
