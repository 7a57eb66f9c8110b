"""WikiText-103: a recurrent language model with sampled softmax, published with a perplexity of 48.6.

Published recipe; each chunk starts from a zero state, as published.
Data: wiki.train.tokens and wiki.valid.tokens in
data/wikitext-103/.
Run:  mpiexec -np 8 python run.py --config_file=example_configs/lm/lstm-wkt103-mixed.py --mode=train_eval
"""
base_config = "lstm-wkt2-fp32.py"

base_params = {
    "batch_size_per_gpu": 224,
    "eval_batch_size_per_gpu": 56,
    "eval_steps": 160,
    "logdir": "WKT103-CPT",
    "processed_data_folder": "wkt103-processed-data",
    "dtype": "mixed",
    "loss_scaling": "Backoff",
    "lr_policy_params": {"learning_rate": 0.001},
    "encoder_params": {
        "core_cell_params": {"num_units": 1024},
        "emb_size": 320,
        "encoder_dp_output_keep_prob": 0.85,
        "encoder_last_output_keep_prob": 0.85,
        "encoder_emb_keep_prob": 0.8,
        "num_tokens_gen": 200,
        "num_sampled": 8192,
    },
    "loss": "BasicSampledSequenceLoss",
    "loss_params": {"offset_target_by_one": False, "average_across_timestep": True, "do_mask": False},
    "data_layer_params": {"data_root": "data/wikitext-103"},
}
