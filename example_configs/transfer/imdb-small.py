"""IMDB reviews: sentiment by the encoder of lm/lstm-imdb-small.py, which has to be trained first.

The classifier reads the maximum and the mean of the encoder's states. Whole words are dropped from the embeddings, and
evaluation uses the mean of the weights since the middle of training. docs/language-models.md has the accuracies.

Data: data/aclImdb/.
Run:  python run.py --config_file=example_configs/transfer/imdb-small.py --mode=train_eval
Time: 27 minutes on one core of an AMD EPYC with avx512_bf16, after the language model
Score: accuracy 92.6 %, with a language model of three epochs (docs/language-models.md)
"""
base_config = "../lm/lstm-imdb-small.py"
base_model = "LSTMLM"

base_params = {
    "batch_size_per_gpu": 32,
    "eval_batch_size_per_gpu": 32,
    "num_epochs": 3,
    "print_loss_steps": 50,
    "print_samples_steps": None,
    "save_summaries_steps": 50,
    "save_checkpoint_steps": 594,
    "eval_steps": 594,
    "logdir": "imdb-small",
    "load_model": "lstm-imdb-small",
    "lm_vocab_file": "lstm-imdb-small-processed-data/vocab.txt",
    "best_metric": "Eval_accuracy",
    "best_metric_mode": "max",
    "restore_best_checkpoint": True,

    "optimizer_params": "<drop>",
    "lr_policy_params": {"learning_rate": 2e-3, "warmup_steps": 150},
    "max_grad_norm": 1.0,
    "average_from": 900,
    "activation_regularization": "<drop>",
    "temporal_activation_regularization": "<drop>",

    "encoder_params": {
        "awd_initializer": "<drop>",
        "encoder_emb_keep_prob": 0.7,
        "encoder_dp_input_keep_prob": 0.8,
        "encoder_last_output_keep_prob": 0.8,
        "adaptive_softmax": "<drop>",
    },

    "decoder": "SoftmaxDecoder",
    "decoder_params": {"pooling": ["max", "mean"], "dropout": 0.5},
    "loss": "CrossEntropyLoss",
    "data_layer": "IMDBDataLayer",
    "data_layer_params": {"data_root": "data/aclImdb", "max_length": 400},
}

train_params = {"data_layer_params": {"shuffle": True}}
