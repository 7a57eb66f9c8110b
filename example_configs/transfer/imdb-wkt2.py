"""IMDB reviews: sentiment by the encoder of a language model of WikiText-2.

Published recipe. Train lm/lstm-wkt2-fp32.py first.
Data: data/aclImdb/.
Run:  python run.py --config_file=example_configs/transfer/imdb-wkt2.py --mode=train_eval
"""
base_config = "imdb-from-scratch.py"
steps = 5

base_params = {
    "batch_size_per_gpu": 16,
    "num_epochs": 25,
    "eval_steps": 10,
    "logdir": "IMDB-WKT2",
    "load_model": "WKT2-CPT",
    "lr_policy_params": {"learning_rate": 1e-05},
    "regularizer_params": {"scale": 0.0002},
    "encoder_params": {
        "encoder_dp_output_keep_prob": 1.0,
        "encoder_last_output_keep_prob": 1.0,
        "encoder_emb_keep_prob": 1.0,
        "recurrent_keep_prob": 1.0,
    },
    "data_layer_params": {"processed_data_folder": "imdb-wkt2-processed-data"},
}
