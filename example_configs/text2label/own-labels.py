"""Your own labels: a bag of n-grams, which learns the classes of your texts from some hundred examples or more.

Data: python scripts/prepare_labels.py --table=reviews.csv --output_dir=own_labels
Run:  python run.py --config_file=example_configs/text2label/own-labels.py --mode=train_eval

docs/own-labels.md describes every step, from the table of texts and labels to predictions by name.
"""
import os

# The five things to choose, in a config of your own that names this one as its base_config:
data_dir = "own_labels/"        # 1. --output_dir of prepare_labels.py
max_ngram = 2                   # 2. longest n-grams, in pieces of words: 3 for much data or classes told by phrases
max_length = 512                # 3. longest text, in pieces of words; the ends of longer ones are not read
batch_size = 32                 # 4. texts in a batch
num_epochs = 20                 # 5. passes over train: fewer for more than some 50,000 texts

base_model = "Text2Label"

base_params = {
    "batch_size_per_gpu": batch_size,
    "num_epochs": num_epochs,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": None,
    "eval_steps": 500,
    "save_checkpoint_steps": 500,
    "num_checkpoints": 1,
    "best_metric": "Eval_accuracy",
    "best_metric_mode": "max",
    "logdir": "own-labels-model",
    "random_seed": 0,
    "dtype": "float32",

    # A sum of squared gradients per embedding: the rare n-grams, which have few updates, are learned with larger ones.
    "optimizer": "Adagrad",
    "optimizer_params": {"initial_accumulator_value": 1e-8},
    "lr_policy": "poly_decay",
    "lr_policy_params": {"learning_rate": 0.000125},

    "encoder": "NgramEncoder",
    "encoder_params": {"embedding_size": 32, "max_ngram": max_ngram, "buckets": 1 << 18, "embedding_scale": 300.0,
                       "dropout": 0.3},

    "decoder": "SoftmaxDecoder",
    "decoder_params": {"pooling": "sqrtn"},

    "loss": "CrossEntropyLoss",

    "data_layer": "LabelledTextDataLayer",
    "data_layer_params": {
        "tokenizer": {"type": "sentencepiece", "model": os.path.join(data_dir, "spm.model")},
        "label_file": os.path.join(data_dir, "labels.txt"),
        "label_column": 1,
        "text_column": 2,
        "max_length": max_length,
    },
}

train_params = {"data_layer_params": {"text_file": os.path.join(data_dir, "train.tsv"), "shuffle": True}}
eval_params = {
    "batch_size_per_gpu": 256,
    "data_layer_params": {"text_file": os.path.join(data_dir, "dev.tsv")},
}
infer_params = {
    "batch_size_per_gpu": 256,
    "data_layer_params": {"text_file": os.path.join(data_dir, "test.tsv")},
}
