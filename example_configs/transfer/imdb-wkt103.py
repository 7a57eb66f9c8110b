"""IMDB reviews: sentiment by the encoder of a language model of WikiText-103.

Published recipe. Train lm/lstm-wkt103-mixed.py first, with
--encoder_params/emb_size=256: as published, the two recipes have embeddings of different sizes, and only the layers
between the first and the last would be loaded.
Data: data/aclImdb/.
Run:  python run.py --config_file=example_configs/transfer/imdb-wkt103.py --mode=train_eval
"""
base_config = "imdb-from-scratch.py"
steps = 10

base_params = {
    "num_gpus": 1,
    "batch_size_per_gpu": 16,
    "eval_batch_size_per_gpu": 64,
    "num_epochs": 100,
    "eval_steps": 10,
    "logdir": "IMDB-WKT103",
    "load_model": "WKT103-CPT",
    "lm_vocab_file": "wkt103-processed-data/vocab.txt",
    "lr_policy_params": {"learning_rate": 0.0001},
    "encoder_params": {
        "core_cell_params": {"num_units": 1024},
        "encoder_dp_output_keep_prob": 0.8,
        "encoder_last_output_keep_prob": 0.8,
        "encoder_emb_keep_prob": 0.6,
        "recurrent_keep_prob": 1.0,
    },
    "data_layer_params": {"processed_data_folder": "imdb-wkt103-processed-data"},
}
