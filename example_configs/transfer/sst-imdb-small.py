"""Stanford Sentiment Treebank: sentiment by the encoder of lm/lstm-imdb-small.py, which has to be trained first.

The classifier reads the mean of the encoder's states. Whole words are dropped from the embeddings, and evaluation uses
the mean of the weights since the middle of training. With trees as training data, --data_layer_params/phrases=True
--num_epochs=2 --average_from=2800 --eval_steps=700 --save_checkpoint_steps=700 also trains on their labelled phrases.
docs/language-models.md has the accuracies.

Data: data/sst/ with train, val and test as .tsv (label and sentence) or .txt (trees).
Run:  python run.py --config_file=example_configs/transfer/sst-imdb-small.py --mode=train_eval
Time: 2 minutes on one core of an AMD EPYC with avx512_bf16, after the language model
Score: accuracy 82.6, 82.9 and 82.7 %, three seeds (docs/language-models.md)
"""
base_config = "imdb-small.py"

base_params = {
    "eval_batch_size_per_gpu": 64,
    "num_epochs": 5,
    "save_checkpoint_steps": 195,
    "eval_steps": 195,
    "logdir": "sst-imdb-small",
    "lr_policy_params": {"warmup_steps": 100},
    "average_from": 487,
    "decoder_params": {"pooling": "mean"},
    "data_layer": "SSTDataLayer",
    "data_layer_params": {"data_root": "data/sst", "max_length": 96},
}

train_params = {"data_layer_params": {"shuffle": True}}
