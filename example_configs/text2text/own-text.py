"""Your own language pair: a Transformer, ConvS2S or GNMT for some thousand to some million sentence pairs.

Data: python scripts/prepare_text.py --table=pairs.tsv --languages es en --output_dir=own_text
Run:  python run.py --config_file=example_configs/text2text/own-text.py --mode=train_eval

docs/own-text.md describes every step, from the table of sentence pairs to translations.
"""
import os

from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, SpecialTextTokens
from open_seq2seq.decoders import ConvS2SDecoder, RNNDecoderWithAttention, TransformerDecoder
from open_seq2seq.encoders import ConvS2SEncoder, GNMTLikeEncoderWithEmbedding, TransformerEncoder
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import poly_decay
from open_seq2seq.parts.convs2s.utils import gated_linear_units
from open_seq2seq.parts.rnn.core_cells import LSTMCell

# The six things to edit:
data_dir = "own_text/"          # 1. --output_dir of prepare_text.py
source, target = "es", "en"     # 2. --languages of prepare_text.py
model = "transformer"           # 3. transformer, convs2s or gnmt
size = "small"                  # 4. small: up to some 200,000 pairs; base: more pairs and a GPU (not measured)
batch_tokens = 2048             # 5. tokens in a batch: half as many if the memory is too small
max_steps = 10000               # 6. most updates; training ends earlier if dev does not get better

base_model = Text2Text
print_steps = max(1, min(100, max_steps // 20))
eval_steps = 5 * print_steps
schedule = {"warmup_share": 0.1, "power": 0.5}
symbols = {
    "GO_SYMBOL": SpecialTextTokens.S_ID.value,
    "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
    "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
}


def transformer(channels, num_layers, num_heads, dropout, learning_rate):
    sizes = {"hidden_size": channels, "num_heads": num_heads, "filter_size": 4 * channels, "attention_dropout": 0.1,
             "relu_dropout": 0.1, "layer_postprocess_dropout": dropout}
    return {
        "optimizer": "LazyAdam",
        "optimizer_params": {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-9},
        "lr_policy_params": {**schedule, "learning_rate": learning_rate},

        "encoder": TransformerEncoder,
        "encoder_params": {**sizes, "encoder_layers": num_layers, "remove_padding": True},

        "decoder": TransformerDecoder,
        "decoder_params": {
            **sizes,
            **symbols,
            "num_hidden_layers": num_layers,
            "beam_size": 4,
            "alpha": 0.6,
            "extra_decode_length": 50,
            "EOS_ID": SpecialTextTokens.EOS_ID.value,
        },
    }


def convs2s(channels, num_layers, keep_prob, learning_rate):
    layers = {
        "conv_nchannels_kwidth": [(channels, 3)] * num_layers,
        "embedding_dropout_keep_prob": keep_prob,
        "hidden_dropout_keep_prob": keep_prob,
        "max_input_length": 128,
        "conv_activation": gated_linear_units,
        "normalization_type": "weight_norm",
    }
    return {
        "optimizer": "Adam",
        "optimizer_params": {},
        "max_grad_norm": 1.0,
        "lr_policy_params": {**schedule, "learning_rate": learning_rate},

        "encoder": ConvS2SEncoder,
        "encoder_params": {
            **layers,
            "src_emb_size": channels,
            "att_layer_num": num_layers,
            "pad_embeddings_2_eight": True,
            "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
        },

        "decoder": ConvS2SDecoder,
        "decoder_params": {
            **layers,
            **symbols,
            "tgt_emb_size": channels,
            "out_emb_size": channels,
            "shared_embed": True,
            "pos_embed": True,
            "out_dropout_keep_prob": keep_prob,
            "beam_size": 4,
            "alpha": 0.6,
            "extra_decode_length": 50,
            "EOS_ID": SpecialTextTokens.EOS_ID.value,
        },
    }


def gnmt(num_units, num_layers, keep_prob, learning_rate):
    cells = {
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": num_units, "forget_bias": 1.0},
        "embedding_scale": 10.0,
        "initializer": "random_uniform",
        "initializer_params": {"minval": -0.1, "maxval": 0.1},
    }
    return {
        "optimizer": "Adam",
        "optimizer_params": {},
        "max_grad_norm": 5.0,
        "lr_policy_params": {**schedule, "learning_rate": learning_rate},

        "encoder": GNMTLikeEncoderWithEmbedding,
        "encoder_params": {
            **cells,
            "src_emb_size": num_units,
            "encoder_layers": num_layers,
            "encoder_dp_input_keep_prob": keep_prob,
            "encoder_dp_output_keep_prob": 1.0,
            "encoder_use_skip_connections": True,
        },

        "decoder": RNNDecoderWithAttention,
        "decoder_params": {
            **cells,
            **symbols,
            "tgt_emb_size": num_units,
            "decoder_layers": num_layers,
            "decoder_dp_input_keep_prob": keep_prob,
            "decoder_dp_output_keep_prob": 0.8,
            "decoder_use_skip_connections": True,
            "attention_type": "gnmt_v2",
            "attention_layer_size": num_units,
            "score_scale_init": 3.0,
            "input_feeding": False,
            "encoder_state": "dense",
            "weight_tied": True,
            "share_source_embedding": True,
            "beam_width": 4,
            "length_penalty": 0.6,
        },
    }


if model not in ("transformer", "convs2s", "gnmt") or size not in ("small", "base"):
    raise ValueError(f"model is {model!r} and size is {size!r}: model must be transformer, convs2s or gnmt, and size "
                     "small or base")

# learning_rate is the highest rate, after the first tenth of the updates; it then falls to 0, slowly at first. Those of
# "small" were measured (docs/own-text.md); those of "base" are the published recipes' for such a batch, not measured.
parts = {
    ("transformer", "small"): transformer(256, 3, 4, dropout=0.3, learning_rate=2e-3),
    ("transformer", "base"): transformer(512, 6, 8, dropout=0.1, learning_rate=1e-3),
    ("convs2s", "small"): convs2s(256, 4, keep_prob=0.7, learning_rate=2e-3),
    ("convs2s", "base"): convs2s(512, 8, keep_prob=0.8, learning_rate=1e-3),
    ("gnmt", "small"): gnmt(320, 2, keep_prob=0.7, learning_rate=2e-3),
    ("gnmt", "base"): gnmt(1024, 4, keep_prob=0.8, learning_rate=1e-3),
}[model, size]

base_params = {
    "batch_size_per_gpu": batch_tokens,
    "max_steps": max_steps,
    "save_summaries_steps": print_steps,
    "print_loss_steps": print_steps,
    "print_samples_steps": eval_steps,
    "eval_steps": eval_steps,
    "save_checkpoint_steps": eval_steps,
    # With few pairs, translations still improve when the loss on dev already rises. chrF needs no spaces between words.
    "best_metric": "Eval_chrF_Score",
    "best_metric_mode": "max",
    "stop_after_evals_without_gain": 5,
    "logdir": "own-text-model",
    "random_seed": 0,
    "dtype": "mixed",

    "lr_policy": poly_decay,
    **parts,

    "loss": PaddedCrossEntropyLossWithSmoothing,
    "loss_params": {"label_smoothing": 0.1},

    "data_layer": ParallelTextDataLayer,
    "data_layer_params": {
        "tokenizer": {"type": "sentencepiece", "model": os.path.join(data_dir, "spm.model")},
        "use_start_token": False,
    },
}

train_params = {
    "data_layer_params": {
        "source_file": os.path.join(data_dir, "train." + source),
        "target_file": os.path.join(data_dir, "train." + target),
        "batch_size_unit": "tokens",
        "shuffle": True,
        "max_length": 128,
    },
}

eval_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {
        "source_file": os.path.join(data_dir, "dev." + source),
        "target_file": os.path.join(data_dir, "dev." + target),
        "max_length": 512,
    },
}

infer_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {
        "source_file": os.path.join(data_dir, "test." + source),
        "max_length": 512,
    },
}
