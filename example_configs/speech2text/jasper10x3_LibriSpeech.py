"""Jasper 10x3: ten blocks of three layers.

Published: greedy WER 5.10 on dev-clean and test-clean after 400 epochs.

200.5 million parameters.

Run:  python run.py --config_file=example_configs/speech2text/jasper10x3_LibriSpeech.py --mode=train_eval
"""
base_config = "jasper10x5_LibriSpeech.py"
repeat = 3

base_params = {"logdir": "jasper10x3"}
