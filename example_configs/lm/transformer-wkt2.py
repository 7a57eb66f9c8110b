"""WikiText-2: a small decoder-only Transformer, which generates text with a cache of keys and values.

Each token attends to at most 128 earlier tokens, also to those of earlier chunks. Two CPU cores can train it.
docs/language-models.md has the perplexities, beside those of lstm-wkt2-small.py.

Data: wiki.train.tokens and wiki.valid.tokens in data/wikitext-2/.
Run:  python run.py --config_file=example_configs/lm/transformer-wkt2.py --mode=train_eval
Time: 46 minutes, at the speed measured on one core of an AMD EPYC with avx512_bf16
Score: perplexity 107.6 on the validation text; 97.5 with the neural cache (docs/language-models.md)
"""
base_config = "lstm-wkt2-small.py"

base_params = {
    "batch_size_per_gpu": 32,
    "num_epochs": 10,
    "print_samples_steps": 1000,
    "save_checkpoint_steps": 1000,
    "eval_steps": 1000,
    "logdir": "transformer-wkt2",
    "lr_policy_params": {"learning_rate": 1e-3, "warmup_steps": 1000},
    "activation_regularization": "<drop>",
    "temporal_activation_regularization": "<drop>",

    "encoder": "TransformerLMEncoder",
    "encoder_params": {
        "encoder_layers": 4,
        "hidden_size": 256,
        "num_heads": 4,
        "filter_size": 1024,
        "attention_dropout": 0.1,
        "relu_dropout": 0.1,
        "layer_postprocess_dropout": 0.2,
        "weight_tied": True,
        "position_encoding": "alibi",
        "memory_length": 128,
        "adaptive_softmax": {"cutoffs": [4000, 12000], "factor": 1.0},
    },
    "data_layer_params": {
        "processed_data_folder": "transformer-processed-data",
        "bptt": 64,
        "random_bptt": "<drop>",
    },
}

infer_params = {
    "encoder_params": {"sampling_temperature": 0.8, "sampling_top_k": 40},
    "data_layer_params": {"seed_tokens": "The In"},
}
