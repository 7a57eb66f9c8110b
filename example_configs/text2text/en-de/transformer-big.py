"""English to German, WMT: Transformer big in mixed precision.

Published: 27.5 BLEU on newstest2014 (cased, detokenised, sacreBLEU), for this size.

Data: Europarl v7, Common Crawl and News Commentary v11, encoded with a joint SentencePiece
model of 32768 pieces. scripts/prepare_wmt.py prepares them from the downloaded files.
Run:  python run.py --config_file=example_configs/text2text/en-de/transformer-big.py --mode=train_eval

The published recipe ran through Horovod (use_horovod True), with 256 sentence pairs per worker; this config has
the same values but runs on one device. iter_size enlarges the batch of each update, as more workers do. The other
recipes for WMT are based on this one.
"""
from open_seq2seq.data.text2text.text2text import SpecialTextTokens

base_model = "Text2Text"
data_root = "wmt16_de_en/"
source, target = "en", "de"
dev_files = ("wmt13-en-de.src", "wmt13-en-de.ref")
test_file = "wmt14-en-de.src"
pieces = ".BPE_common.32K.tok"

d_model = 1024
num_layers = 6
num_heads = 16
dropout = 0.3
attention_dropout = 0.1
sizes = {"hidden_size": d_model, "num_heads": num_heads, "filter_size": 4 * d_model,
         "attention_dropout": attention_dropout, "relu_dropout": dropout, "layer_postprocess_dropout": dropout}

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 256,  # sentence pairs
    "max_steps": 300000,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": 100,
    "eval_steps": 4000,
    # The published recipe saved only once, at step 299998; a crash would have lost the whole run.
    "save_checkpoint_steps": 4000,
    "logdir": f"transformer-big-{source}-{target}",
    "dtype": "mixed",
    "loss_scaling": "Backoff",

    "optimizer": "LazyAdam",
    "optimizer_params": {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-9},
    "lr_policy": "transformer_policy",
    "lr_policy_params": {"learning_rate": 2.0, "warmup_steps": 8000, "d_model": d_model},

    "encoder": "TransformerEncoder",
    "encoder_params": {
        **sizes,
        "encoder_layers": num_layers,
        "pad_embeddings_2_eight": True,
        "remove_padding": True,
    },

    "decoder": "TransformerDecoder",
    "decoder_params": {
        **sizes,
        "num_hidden_layers": num_layers,
        "beam_size": 4,
        "alpha": 0.6,
        "extra_decode_length": 50,
        "EOS_ID": SpecialTextTokens.EOS_ID.value,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    },

    "loss": "PaddedCrossEntropyLossWithSmoothing",
    "loss_params": {"label_smoothing": 0.1},

    "data_layer": "ParallelTextDataLayer",
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
        "source_file": f"{data_root}train.clean.{source}.shuffled{pieces}",
        "target_file": f"{data_root}train.clean.{target}.shuffled{pieces}",
        "shuffle": True,
        "repeat": True,
        "length_buckets": False,  # as published; buckets, with batch_size_unit "tokens", need less padding
        "max_length": 56,
    },
}

eval_params = {
    "batch_size_per_gpu": 16,
    "data_layer_params": {
        "source_file": data_root + dev_files[0] + pieces,
        "target_file": data_root + dev_files[1] + pieces,
        "shuffle": False,
        "repeat": False,
        "max_length": 256,
    },
}

infer_params = {
    "batch_size_per_gpu": 1,
    "data_layer_params": {
        "source_file": data_root + test_file + pieces,
        "shuffle": False,
        "repeat": False,
        "max_length": 256,
    },
}
