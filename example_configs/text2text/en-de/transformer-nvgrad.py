"""English to German, WMT: Transformer big with NovoGrad, in mixed precision.

Published: 28.0 BLEU on newstest2014 (cased, detokenised, sacreBLEU).

Data: Europarl v7, Common Crawl and News Commentary v11, encoded with a joint SentencePiece
model of 32768 pieces. scripts/prepare_wmt.py prepares them from the downloaded files.
Run:  python run.py --config_file=example_configs/text2text/en-de/transformer-nvgrad.py --mode=train_eval

The published recipe ran through Horovod (use_horovod True), with 128 sentence pairs per worker; this config has
the same values but runs on one device. iter_size enlarges the batch of each update, as more workers do.
"""
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, SpecialTextTokens
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import poly_decay

base_model = Text2Text
data_root = "wmt16_de_en/"
d_model = 1024
num_layers = 6
num_heads = 16
filter_size = 4 * d_model
attention_dropout = 0.1
relu_dropout = 0.3
layer_postprocess_dropout = 0.3
norm_params = {"type": "layernorm_L2", "epsilon": 1e-5}

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 128,  # sentence pairs
    "max_steps": 600000,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": 10000,
    "eval_steps": 10000,
    # Saves more often than the published recipe (every 99999 steps), so that a crash costs less.
    "save_checkpoint_steps": 10000,
    "logdir": "transformer-nvgrad-en-de",
    "dtype": "mixed",
    "loss_scaling": "Backoff",

    "optimizer": "NovoGrad",
    "optimizer_params": {
        "beta1": 0.95,
        "beta2": 0.99,
        "epsilon": 1e-8,
        "weight_decay": 1e-5,
        "grad_averaging": False,
        # True, because the published result was obtained by dividing by the norm of the current gradient. With
        # False, the norms are averaged over updates with beta2, as in the paper.
        "compat_no_ema": True,
    },
    "lr_policy": poly_decay,
    "lr_policy_params": {"learning_rate": 0.04, "power": 2.0},

    "encoder": TransformerEncoder,
    "encoder_params": {
        "encoder_layers": num_layers,
        "hidden_size": d_model,
        "num_heads": num_heads,
        "filter_size": filter_size,
        "attention_dropout": attention_dropout,
        "relu_dropout": relu_dropout,
        "layer_postprocess_dropout": layer_postprocess_dropout,
        "pad_embeddings_2_eight": True,
        "remove_padding": True,
        "norm_params": norm_params,
    },

    "decoder": TransformerDecoder,
    "decoder_params": {
        "num_hidden_layers": num_layers,
        "hidden_size": d_model,
        "num_heads": num_heads,
        "filter_size": filter_size,
        "attention_dropout": attention_dropout,
        "relu_dropout": relu_dropout,
        "layer_postprocess_dropout": layer_postprocess_dropout,
        "norm_params": norm_params,
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
        "max_length": 56,
    },
}

eval_params = {
    "batch_size_per_gpu": 16,
    "data_layer_params": {
        "source_file": data_root + "wmt13-en-de.src.BPE_common.32K.tok",
        "target_file": data_root + "wmt13-en-de.ref.BPE_common.32K.tok",
        "shuffle": False,
        "repeat": False,
        "max_length": 256,
    },
}

infer_params = {
    "batch_size_per_gpu": 1,
    "data_layer_params": {
        "source_file": data_root + "wmt14-en-de.src.BPE_common.32K.tok",
        "shuffle": False,
        "repeat": False,
        "max_length": 256,
    },
}
