"""Toy task: texts and summaries, in numbered columns of a CSV file with a header.

Data: python scripts/create_toy_data.py --task=summary
Run:  python run.py --config_file=example_configs/text2text/toy-tables/summary.py --mode=train_eval

The summary consists of the letters that are marked in the text: that of "! α β ! γ δ" is "α γ".
"""
base_config = "dialogue.py"
data_root = "toy_summary/"
ending = ".csv"

base_params = {
    "logdir": "toy-summary",
    "data_layer_params": {"source_column": 2, "target_column": 1, "has_header": True},
}
