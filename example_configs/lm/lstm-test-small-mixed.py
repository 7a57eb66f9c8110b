"""WikiText-2: a small recurrent language model in mixed precision.

Run:  python run.py --config_file=example_configs/lm/lstm-test-small-mixed.py --mode=train_eval
"""
base_config = "lstm-test-small.py"
steps = 40

base_params = {
    "eval_steps": 80,
    "logdir": "LSTM-MIXED-2GPU-SMALL",
    "dtype": "mixed",
    "loss_scaling": "Backoff",
}
