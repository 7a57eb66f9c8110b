"""English to German, WMT: Transformer base.

Published: 26.4 BLEU on newstest2014 (cased, detokenised, sacreBLEU) after 300000 steps.

Run:  python run.py --config_file=example_configs/text2text/en-de/transformer-base.py --mode=train_eval
"""
base_config = "transformer-big.py"
d_model = 512
num_heads = 8
dropout = 0.1

base_params = {
    "eval_steps": 4001,
    "save_checkpoint_steps": 4001,
    "logdir": "transformer-base-en-de",
    "dtype": "float32",
    "loss_scaling": "<drop>",
}
