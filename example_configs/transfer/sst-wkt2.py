"""Stanford Sentiment Treebank: sentiment by the encoder of a language model of WikiText-2.

Published recipe. Train lm/lstm-wkt2-fp32.py first.
Data: data/sst/.
Run:  python run.py --config_file=example_configs/transfer/sst-wkt2.py --mode=train_eval
"""
base_config = "imdb-wkt103.py"

base_params = {
    "batch_size_per_gpu": 20,
    "eval_batch_size_per_gpu": 80,
    "num_epochs": 120,
    "logdir": "SST-WKT2",
    "load_model": "WKT2-CPT",
    "lm_vocab_file": "wkt2-processed-data/vocab.txt",
    "encoder_params": {
        "core_cell_params": {"num_units": 896},
        "encoder_emb_keep_prob": 0.7,
        "use_cell_state": True,
    },
    "data_layer": "SSTDataLayer",
    "data_layer_params": {
        "data_root": "data/sst",
        "processed_data_folder": "sst-wkt2-processed-data",
        "max_length": 96,
        "binary": True,
    },
}

train_params = {"data_layer_params": {"shuffle": True, "repeat": True}}
eval_params = {"data_layer_params": {"shuffle": False, "repeat": False}}
infer_params = {"data_layer_params": {"shuffle": False, "repeat": False}}
