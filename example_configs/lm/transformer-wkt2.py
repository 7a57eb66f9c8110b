"""WikiText-2: a small decoder-only Transformer, which generates text with a cache of keys and values.

Each token attends to at most 128 earlier tokens, also to those of earlier chunks. Two CPU cores can train it.
docs/language-models.md has the perplexities, beside those of lstm-wkt2-small.py.

Data: wiki.train.tokens and wiki.valid.tokens in data/wikitext-2/.
Run:  python run.py --config_file=example_configs/lm/transformer-wkt2.py --mode=train_eval
"""
from open_seq2seq.data import WKTDataLayer
from open_seq2seq.decoders import FakeDecoder
from open_seq2seq.encoders import TransformerLMEncoder
from open_seq2seq.losses import BasicSequenceLoss
from open_seq2seq.models import LanguageModel
from open_seq2seq.optimizers.lr_policies import cosine_decay

base_model = LanguageModel

base_params = {
    "num_gpus": 1,
    "batch_size_per_gpu": 32,
    "eval_batch_size_per_gpu": 16,
    "num_epochs": 10,
    "print_loss_steps": 100,
    "print_samples_steps": 1000,
    "save_summaries_steps": 100,
    "save_checkpoint_steps": 1000,
    "eval_steps": 1000,
    "logdir": "transformer-wkt2",
    "random_seed": 0,
    "dtype": "mixed",

    "optimizer": "Adam",
    "optimizer_params": {"beta2": 0.99},
    "lr_policy": cosine_decay,
    "lr_policy_params": {"learning_rate": 1e-3, "warmup_steps": 1000},
    "max_grad_norm": 0.5,
    "best_metric": "perplexity",

    "encoder": TransformerLMEncoder,
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

    "decoder": FakeDecoder,

    "loss": BasicSequenceLoss,
    "loss_params": {"offset_target_by_one": False, "average_across_timestep": True},

    "data_layer": WKTDataLayer,
    "data_layer_params": {
        "data_root": "data/wikitext-2",
        "processed_data_folder": "transformer-processed-data",
        "bptt": 64,
        "carry_state": True,
    },
}

train_params = {"data_layer_params": {"rand_start": True}}

infer_params = {
    "encoder_params": {"sampling_temperature": 0.8, "sampling_top_k": 40},
    "data_layer_params": {"seed_tokens": "The In"},
}
