"""IMDB reviews: the language model whose encoder transfer/imdb-small.py and transfer/sst-imdb-small.py start from.

The model is that of lstm-wkt2-small.py. Two CPU cores can train it.

Data: train.txt and valid.txt in data/imdb-lm/; scripts/prepare_imdb.py writes them.
Run:  python run.py --config_file=example_configs/lm/lstm-imdb-small.py --mode=train_eval
Time: 71 minutes on one core of an AMD EPYC with avx512_bf16
Score: perplexity 96.2 on 400 reviews (docs/language-models.md)
"""
base_config = "lstm-wkt2-small.py"

base_params = {
    "num_epochs": 5,
    "eval_steps": 1200,
    "logdir": "lstm-imdb-small",
    "data_layer_params": {
        "data_root": "data/imdb-lm",
        "processed_data_folder": "lstm-imdb-small-processed-data",
        "min_count": 4,
    },
}
