"""WikiText-2: a small recurrent language model in mixed precision.

Run:  python run.py --config_file=example_configs/lm/lstm-test-small-mixed.py --mode=train_eval
"""
base_config = "lstm-test-small.py"

base_params = {
    "save_summaries_steps": 40,
    "print_loss_steps": 40,
    "print_samples_steps": 40,
    "save_checkpoint_steps": 40,
    "eval_steps": 80,
    "logdir": "LSTM-MIXED-2GPU-SMALL",
    "dtype": "mixed",
    "loss_scaling": "Backoff",
}
