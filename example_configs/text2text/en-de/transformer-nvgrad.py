"""English to German, WMT: Transformer big with NovoGrad, in mixed precision.

Published: 28.0 BLEU on newstest2014 (cased, detokenised, sacreBLEU), with 128 sentence pairs per worker.

Run:  python run.py --config_file=example_configs/text2text/en-de/transformer-nvgrad.py --mode=train_eval
"""
base_config = "transformer-big.py"
norm_params = {"type": "layernorm_L2", "epsilon": 1e-5}

base_params = {
    "batch_size_per_gpu": 128,  # sentence pairs
    "max_steps": 600000,
    "print_samples_steps": 10000,
    "eval_steps": 10000,
    # Saves more often than the published recipe (every 99999 steps), so that a crash costs less.
    "save_checkpoint_steps": 10000,
    "logdir": "transformer-nvgrad-en-de",

    "optimizer": "NovoGrad",
    # compat_no_ema: the published recipe used the norm of the current gradient. With False, the norms are averaged over
    # updates with beta2, as in the paper.
    "optimizer_params": {"beta1": 0.95, "beta2": 0.99, "epsilon": 1e-8, "weight_decay": 1e-5,
                         "grad_averaging": False, "compat_no_ema": True},
    "lr_policy": "poly_decay",
    "lr_policy_params": {"learning_rate": 0.04, "power": 2.0},
    "encoder_params": {"norm_params": norm_params},
    "decoder_params": {"norm_params": norm_params},
}
