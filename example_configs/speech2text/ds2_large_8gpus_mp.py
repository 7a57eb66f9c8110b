"""Deep Speech 2, large, in mixed precision.

Published: greedy WER 6.71 % on dev-clean after 200 epochs.

Run:  python run.py --config_file=example_configs/speech2text/ds2_large_8gpus_mp.py --mode=train_eval
"""
base_config = "ds2_large_8gpus.py"
base_params = {
    "print_loss_steps": 100,
    "save_checkpoint_steps": 10000,
    "dtype": "mixed",
    "encoder_params": {"data_format": "<drop>"},
}
