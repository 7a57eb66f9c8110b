"""Toy task: two encoders read two damaged copies of a line of letters, and one decoder writes the whole line reversed.

Data: python scripts/create_toy_data.py --task=sources
Run:  python run.py --config_file=example_configs/text2text/toy-several/two-sources.py --mode=train_eval

In each copy some letters are replaced by "_", but never the same ones, so that neither copy alone is enough. The
decoder attends to the outputs of both encoders.
"""
base_config = "../toy-tables/dialogue.py"
data_root = "toy_sources/"
encoder_params = {"encoder_layers": 2, "hidden_size": 128, "num_heads": 8, "filter_size": 512, "attention_dropout": 0.1,
                  "relu_dropout": 0.1, "layer_postprocess_dropout": 0.1, "remove_padding": True}

base_params = {
    "logdir": "toy-two-sources",
    "encoder": "MultiEncoder",
    "encoder_params": {
        "encoders": {
            "first": {"encoder": "TransformerEncoder", "source": 1, "encoder_params": encoder_params},
            "second": {"encoder": "TransformerEncoder", "source": 2, "encoder_params": encoder_params},
        },
        "combination": "time",
    },
    "data_layer_params": {"source_column": ["first", "second"], "target_column": "target"},
}
