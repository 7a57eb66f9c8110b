"""English to German and French on Multi30k: one small Transformer encoder and a decoder for each language.

Data: python scripts/prepare_multi30k.py --data_dir=FOLDER --output_dir=multi30k_de_fr --languages en de fr
Run:  python run.py --config_file=example_configs/text2text/en-de-fr/transformer-multi30k.py --mode=train_eval
Time: 21 minutes on one core of an AMD EPYC with avx512_bf16
Score: 32.8 BLEU in German and 49.6 in French on test_2016_flickr (docs/translation.md)

The sizes are those of en-de/transformer-multi30k.py. A batch of 4,096 tokens has about half of them for each language.
All three languages share a vocabulary of 8000 pieces, and both decoders the encoder's table of embeddings. More
updates (--max_steps) raise the scores. --language=fr chooses the language of inference:
python run.py --config_file=example_configs/text2text/en-de-fr/transformer-multi30k.py --mode=infer --language=fr
"""
base_config = "../en-de/transformer-multi30k.py"
base_model = "MultiDecoderModel"
data_root = "multi30k_de_fr/"
sizes = {"hidden_size": 256, "num_heads": 4, "filter_size": 1024, "attention_dropout": 0.1, "relu_dropout": 0.1,
         "layer_postprocess_dropout": 0.3}


def corpora(split):
    """Returns the corpora of train, val or test_2016_flickr."""
    return {language: {"source_file": f"{data_root}{split}.en", "target_file": f"{data_root}{split}.{language}"}
            for language in ("de", "fr")}


base_params = {
    "batch_size_per_gpu": 4096,  # tokens: see batch_size_unit
    "max_steps": 1600,
    "eval_steps": 400,
    "save_checkpoint_steps": 100,
    "best_metric": "Eval_BLEU_Score",  # the mean of Eval_BLEU_Score_de and Eval_BLEU_Score_fr
    "best_metric_mode": "max",
    "logdir": "transformer-multi30k-en-de-fr",
    "lr_policy": "cosine_decay",
    "lr_policy_params": {"learning_rate": 2e-3, "warmup_steps": 300},

    "decoder": "MultiDecoder",
    "decoder_params": {
        "decoder": "TransformerDecoder",
        "decoder_params": {**sizes, "num_hidden_layers": 3, "beam_size": 4, "alpha": 0.6, "extra_decode_length": 50,
                           "EOS_ID": 1},
    },

    "data_layer": "MultiCorpusDataLayer",
    "data_layer_params": {
        "tokenizer": {"type": "sentencepiece", "model": data_root + "spm8k.model"},
        "use_start_token": False,
        "corpora": {"de": {}, "fr": {}},
    },
}

train_params = {"data_layer_params": {"corpora": corpora("train"), "batch_size_unit": "tokens", "max_length": 100}}
eval_params = {"data_layer_params": {"corpora": corpora("val"), "max_length": 256}}
infer_params = {"data_layer_params": {"source_file": data_root + "test_2016_flickr.en", "max_length": 256}}
