"""Toy task: one encoder and two decoders, one of which reverses a line of letters while the other copies it.

Data: python scripts/create_toy_data.py --output_dir=toy_text_data
Run:  python run.py --config_file=example_configs/text2text/toy-several/reverse-and-copy.py --mode=train_eval

The two "languages" are `reversed` and `copied`; --language chooses one for inference:
python run.py --config_file=example_configs/text2text/toy-several/reverse-and-copy.py --mode=infer --language=copied
"""
base_config = "../toy-tables/dialogue.py"
base_model = "MultiDecoderModel"
data_root = "toy_text_data/"
sizes = {"hidden_size": 128, "num_heads": 8, "filter_size": 512, "attention_dropout": 0.1, "relu_dropout": 0.1,
         "layer_postprocess_dropout": 0.1}


def reversed_lines(part):
    return {"source_file": f"{data_root}{part}/source.txt", "target_file": f"{data_root}{part}/target.txt"}


def copied_lines(part):
    return {"source_file": f"{data_root}{part}/source.txt", "target_file": f"{data_root}{part}/source.txt"}


base_params = {
    "max_steps": 1200,
    "print_samples_steps": 400,
    "eval_steps": 400,
    # best_metric, Eval_BLEU_Score, is the mean of both; Eval_BLEU_Score_copied is that of one.
    "logdir": "reverse-and-copy",

    "decoder": "MultiDecoder",
    "decoder_params": {
        "decoder": "TransformerDecoder",
        "decoder_params": {
            **sizes,
            "num_hidden_layers": 2,
            "share_source_embedding": False,  # separate vocabularies
            "beam_size": 2,
            "alpha": 1.0,
            "extra_decode_length": 2,
            "EOS_ID": 1,
        },
    },

    "data_layer": "MultiCorpusDataLayer",
    "data_layer_params": {
        "src_vocab_file": data_root + "vocab/source.txt",
        "corpora": {
            "reversed": {"tgt_vocab_file": data_root + "vocab/target.txt"},
            "copied": {"tgt_vocab_file": data_root + "vocab/source.txt"},
        },
        "special_tokens_already_in_vocab": False,
        "use_start_token": False,
        "max_length": 56,
    },
}

train_params = {
    "data_layer_params": {
        "corpora": {
            # Copying is easier, so that it needs fewer examples.
            "reversed": {**reversed_lines("train"), "ratio": 2},
            "copied": {**copied_lines("train"), "ratio": 1},
        },
        "length_buckets": False,  # as in the recipe for reversal alone
    },
}
eval_params = {"data_layer_params": {"corpora": {"reversed": reversed_lines("dev"), "copied": copied_lines("dev")}}}
infer_params = {"data_layer_params": {"source_file": data_root + "test/source.txt"}}
