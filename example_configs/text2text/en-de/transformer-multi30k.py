"""English to German on Multi30k: a small Transformer that two CPU cores can train.

Multi30k (Elliott et al. 2016) has 29000 sentence pairs, so regularisation matters, and dropout is
high. The text is raw, that is, cased and not tokenised; only the SentencePiece model splits it.

Data: python scripts/prepare_multi30k.py --data_dir=FOLDER --output_dir=multi30k
Run:  python run.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py --mode=train_eval
Time: 31 minutes for 5,384 updates on two cores of an Intel Xeon with amx_bf16
Score: 39.2 BLEU on test_2016_flickr (docs/translation.md)
"""
from open_seq2seq.data.text2text.text2text import SpecialTextTokens

base_model = "Text2Text"
data_root = "multi30k/"
d_model = 256
num_layers = 3
num_heads = 4
dropout = 0.3
sizes = {"hidden_size": d_model, "num_heads": num_heads, "filter_size": 4 * d_model, "attention_dropout": 0.1,
         "relu_dropout": 0.1, "layer_postprocess_dropout": dropout}

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 2048,  # tokens: see batch_size_unit
    "max_steps": 5500,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": 500,
    "eval_steps": 1000,
    "save_checkpoint_steps": 250,
    "average_checkpoints": 5,
    "logdir": "transformer-multi30k-en-de",
    "random_seed": 0,
    "dtype": "mixed",

    "optimizer": "LazyAdam",
    "optimizer_params": {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-9},
    "lr_policy": "transformer_policy",
    "lr_policy_params": {"learning_rate": 1.6, "warmup_steps": 2000, "d_model": d_model},

    "encoder": "TransformerEncoder",
    "encoder_params": {**sizes, "encoder_layers": num_layers, "remove_padding": True},

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
        # One model for both languages: source and target share a vocabulary of 8000 unigram pieces.
        "tokenizer": {"type": "sentencepiece", "model": data_root + "spm8k.model"},
        "use_start_token": False,
    },
}

train_params = {
    "data_layer_params": {
        "source_file": data_root + "train.en",
        "target_file": data_root + "train.de",
        "batch_size_unit": "tokens",
        "shuffle": True,
        "max_length": 100,
    },
}

eval_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {
        "source_file": data_root + "val.en",
        "target_file": data_root + "val.de",
        "max_length": 256,
    },
}

infer_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {
        "source_file": data_root + "test_2016_flickr.en",
        "max_length": 256,
    },
}
