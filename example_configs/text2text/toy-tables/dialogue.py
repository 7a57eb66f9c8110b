"""Toy task: questions and answers, in columns of a TSV file that have names.

Data: python scripts/create_toy_data.py --task=dialogue
Run:  python run.py --config_file=example_configs/text2text/toy-tables/dialogue.py --mode=train_eval

A question such as "second of γ α β" has the answer "it is α". For other pairs in one file, set the columns.
"""
base_config = "../toy-reversal/nmt-reversal-TT.py"
data_root = "toy_dialogue/"
ending = ".tsv"

base_params = {
    "save_checkpoint_steps": 400,
    "best_metric": "Eval_BLEU_Score",
    "best_metric_mode": "max",
    "logdir": "toy-dialogue",
    "decoder_params": {"beam_size": 2, "GO_SYMBOL": "<drop>", "END_SYMBOL": "<drop>", "PAD_SYMBOL": "<drop>"},

    "data_layer": "TableTextDataLayer",
    "data_layer_params": {
        "source_column": "question",
        "target_column": "answer",
        "src_vocab_file": data_root + "vocab/source.txt",
        "tgt_vocab_file": data_root + "vocab/target.txt",
        "special_tokens_already_in_vocab": False,
        "use_start_token": False,
        "max_length": 80,
    },
}

train_params = {"data_layer_params": {"source_file": data_root + "train" + ending, "length_buckets": False}}
eval_params = {"data_layer_params": {"source_file": data_root + "dev" + ending}}
infer_params = {"data_layer_params": {"source_file": data_root + "test" + ending}}
