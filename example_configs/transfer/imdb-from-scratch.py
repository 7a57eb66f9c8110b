"""IMDB reviews: sentiment by a recurrent network, without a language model.

Published recipe. The vocabulary is that of lm/lstm-wkt2-fp32.py, which has to be trained first.
Data: data/aclImdb/.
Run:  python run.py --config_file=example_configs/transfer/imdb-from-scratch.py --mode=train_eval
"""
base_config = "../lm/lstm-wkt2-fp32.py"

base_params = {
    "use_horovod": False,
    "num_gpus": 2,
    "eval_batch_size_per_gpu": "<drop>",
    "logdir": "IMDB-FROM-SCRATCH",
    "processed_data_folder": "<drop>",
    "lm_vocab_file": "wkt2-processed-data/vocab.txt",
    "lr_policy_params": {"learning_rate": 0.0009},
    "encoder_params": {"num_tokens_gen": "<drop>", "use_cell_state": False},
    "loss": "CrossEntropyLoss",
    "data_layer": "IMDBDataLayer",
    "data_layer_params": {
        "data_root": "data/aclImdb",
        "processed_data_folder": "imdb-from-scratch-processed-data",
        "max_length": 256,
        "binary": True,
    },
}

train_params = {"data_layer_params": {"shuffle": True, "repeat": True}}
eval_params = {"data_layer_params": {"shuffle": False, "repeat": False}}
infer_params = {"data_layer_params": {"shuffle": False, "repeat": False}}
