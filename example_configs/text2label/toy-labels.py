"""Toy task: a Transformer's encoder and a softmax tell which letter is the most frequent in a line.

Data: python scripts/create_toy_data.py --task=labels
Run:  python run.py --config_file=example_configs/text2label/toy-labels.py --mode=train_eval

Any encoder of text can take the place of this one. For other data, set the columns of label and text, and the classes.
"""
base_config = "own-labels.py"
data_root = "toy_labels/"
max_length = 56

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 64,
    "num_epochs": "<drop>",
    "max_steps": 600,
    "save_summaries_steps": 50,
    "print_loss_steps": 50,
    "print_samples_steps": 300,
    "eval_steps": 200,
    "save_checkpoint_steps": 300,
    "num_checkpoints": "<drop>",
    "logdir": "toy-labels",

    "optimizer": "LazyAdam",
    "optimizer_params": {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-9},
    "lr_policy": "transformer_policy",
    "lr_policy_params": {"learning_rate": 0.5, "warmup_steps": 200, "d_model": 64},

    "encoder": "TransformerEncoder",
    "encoder_params": {
        "encoder_layers": 2,
        "hidden_size": 64,
        "num_heads": 4,
        "filter_size": 256,
        "attention_dropout": 0.1,
        "relu_dropout": 0.1,
        "layer_postprocess_dropout": 0.1,
        "remove_padding": True,
    },
    "decoder_params": {"pooling": ["mean", "max"]},
    "loss_params": {"label_smoothing": 0.0},
    "data_layer_params": {
        "tokenizer": "<drop>",
        "src_vocab_file": data_root + "vocab/source.txt",
        "special_tokens_already_in_vocab": False,
        "label_file": data_root + "labels.txt",
    },
}

train_params = {"data_layer_params": {"text_file": data_root + "train.tsv", "shuffle": "<drop>"}}
eval_params = {"batch_size_per_gpu": 64, "data_layer_params": {"text_file": data_root + "dev.tsv"}}
infer_params = {"batch_size_per_gpu": 64, "data_layer_params": {"text_file": data_root + "test.tsv"}}
