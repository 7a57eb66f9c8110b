"""Your own language pair: a Transformer for some thousand to some million sentence pairs.

Data: python scripts/prepare_text.py --tsv=pairs.tsv --languages es en --output_dir=own_text
Run:  python run.py --config_file=example_configs/text2text/own-text.py --mode=train_eval

docs/own-text.md describes every step, from the table of sentence pairs to translations.
"""
import os

from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, SpecialTextTokens
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import transformer_policy

# The five things to edit:
data_dir = "own_text/"          # 1. --output_dir of prepare_text.py
source, target = "es", "en"     # 2. --languages of prepare_text.py
size = "small"                  # 3. small: up to some 200,000 pairs; base: more pairs and a GPU
batch_tokens = 2048             # 4. tokens in a batch: half as many if the memory is too small
max_steps = 10000               # 5. most updates; training ends earlier if dev does not get better

d_model, num_layers, num_heads, dropout = {"small": (256, 3, 4, 0.3), "base": (512, 6, 8, 0.1)}[size]

base_model = Text2Text

base_params = {
    "batch_size_per_gpu": batch_tokens,
    "max_steps": max_steps,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": 500,
    "eval_steps": 500,
    "save_checkpoint_steps": 500,
    "stop_after_evals_without_gain": 5,
    "logdir": "own-text-model",
    "random_seed": 0,
    "dtype": "mixed",

    "optimizer": "LazyAdam",
    "optimizer_params": {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-9},
    "lr_policy": transformer_policy,
    "lr_policy_params": {"learning_rate": 1.6, "warmup_steps": min(2000, max_steps // 5), "d_model": d_model},

    "encoder": TransformerEncoder,
    "encoder_params": {
        "encoder_layers": num_layers,
        "hidden_size": d_model,
        "num_heads": num_heads,
        "filter_size": 4 * d_model,
        "attention_dropout": 0.1,
        "relu_dropout": 0.1,
        "layer_postprocess_dropout": dropout,
        "remove_padding": True,
    },

    "decoder": TransformerDecoder,
    "decoder_params": {
        "num_hidden_layers": num_layers,
        "hidden_size": d_model,
        "num_heads": num_heads,
        "filter_size": 4 * d_model,
        "attention_dropout": 0.1,
        "relu_dropout": 0.1,
        "layer_postprocess_dropout": dropout,
        "beam_size": 4,
        "alpha": 0.6,
        "extra_decode_length": 50,
        "EOS_ID": SpecialTextTokens.EOS_ID.value,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    },

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
