"""Stanford Sentiment Treebank: sentiment by a small LSTM, without a language model, which two CPU cores can train.

Evaluation uses the mean of the weights since the middle of training.
docs/language-models.md has the accuracies of this recipe and of the one with transfer, sst-imdb-small.py.

Data: data/sst/ with train, val and test as .tsv (label and sentence) or .txt (trees).
Run:  python run.py --config_file=example_configs/transfer/sst-scratch-small.py --mode=train_eval
Time: one minute on one core of an AMD EPYC with avx512_bf16
Score: accuracy 79.4, 80.3 and 79.7 %, three seeds (docs/language-models.md)
"""
base_config = "sst-imdb-small.py"

base_params = {
    "num_epochs": 8,
    "save_checkpoint_steps": 390,
    "eval_steps": 390,
    "logdir": "sst-scratch-small",
    "load_model": "<drop>",
    "lm_vocab_file": "<drop>",
    "lr_policy_params": {"learning_rate": 3e-3},
    "average_from": 780,
    "encoder_params": {
        "core_cell_params": {"num_units": 300},
        "encoder_layers": 1,
        "emb_size": 300,
        "weight_tied": "<drop>",
        "recurrent_weight_keep_prob": "<drop>",
        "encoder_emb_keep_prob": 0.35,
        "encoder_dp_input_keep_prob": 0.5,
        "encoder_dp_output_keep_prob": "<drop>",
        "encoder_last_output_keep_prob": 0.5,
    },
    "decoder_params": {"pooling": ["max", "mean"]},
    "data_layer_params": {"processed_data_folder": "sst-scratch-small-processed-data", "min_count": 2},
}
