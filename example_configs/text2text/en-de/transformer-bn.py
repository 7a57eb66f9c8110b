"""English to German, WMT: Transformer big with batch norm and LARC, in mixed precision.

No result was published for this config. The published recipe ran on two GPUs with 128 sentence pairs each.

Run:  python run.py --config_file=example_configs/text2text/en-de/transformer-bn.py --mode=train_eval
"""
base_config = "transformer-big.py"
attention_dropout = 0.02
regularizer = {"regularizer": "l2_regularizer", "regularizer_params": {"scale": 0.001}}
norm_params = {"type": "batch_norm", "momentum": 0.95, "epsilon": 1e-5, "center_scale": False, **regularizer}

base_params = {
    "batch_size_per_gpu": 128,  # sentence pairs
    "max_steps": 1000000,
    "print_samples_steps": 10000,
    "eval_steps": 10000,
    # Saves more often than the published recipe (every 99999 steps), so that a crash costs less.
    "save_checkpoint_steps": 10000,
    "logdir": "transformer-bn-en-de",
    "larc_params": {"larc_eta": 0.001},
    **regularizer,
    "encoder_params": {"norm_params": norm_params},
    "decoder_params": {"norm_params": norm_params},
}

train_params = {"data_layer_params": {"max_length": 64}}
