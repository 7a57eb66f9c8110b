"""WikiText-2: a small decoder-only Transformer, which generates text with a cache of keys and values.

Data: wiki.train.tokens and wiki.valid.tokens in data/wikitext-2/.
Run:  python run.py --config_file=example_configs/lm/transformer-wkt2.py --mode=train_eval
"""
from open_seq2seq.data import WKTDataLayer
from open_seq2seq.decoders import FakeDecoder
from open_seq2seq.encoders import TransformerLMEncoder
from open_seq2seq.losses import BasicSequenceLoss
from open_seq2seq.models import LanguageModel
from open_seq2seq.optimizers.lr_policies import transformer_policy

base_model = LanguageModel
d_model = 256

base_params = {
    "num_gpus": 1,
    "batch_size_per_gpu": 16,
    "eval_batch_size_per_gpu": 16,
    "num_epochs": 20,
    "print_loss_steps": 100,
    "print_samples_steps": 1000,
    "save_summaries_steps": 100,
    "save_checkpoint_steps": 1000,
    "eval_steps": 1000,
    "logdir": "transformer-wkt2",
    "random_seed": 0,
    "dtype": "float32",

    "optimizer": "Adam",
    "optimizer_params": {"beta2": 0.98},
    "lr_policy": transformer_policy,
    "lr_policy_params": {"learning_rate": 0.5, "warmup_steps": 1000, "d_model": d_model},
    "max_grad_norm": 1.0,

    "encoder": TransformerLMEncoder,
    "encoder_params": {
        "encoder_layers": 4,
        "hidden_size": d_model,
        "num_heads": 4,
        "filter_size": 4 * d_model,
        "attention_dropout": 0.2,
        "relu_dropout": 0.2,
        "layer_postprocess_dropout": 0.3,
        "weight_tied": True,
    },

    "decoder": FakeDecoder,

    "loss": BasicSequenceLoss,
    "loss_params": {"offset_target_by_one": False, "average_across_timestep": True},

    "data_layer": WKTDataLayer,
    "data_layer_params": {
        "data_root": "data/wikitext-2",
        "processed_data_folder": "transformer-processed-data",
        "bptt": 128,
    },
}

train_params = {"data_layer_params": {"rand_start": True}}

infer_params = {
    "encoder_params": {"sampling_temperature": 0.8, "sampling_top_k": 40},
    "data_layer_params": {"seed_tokens": "The In"},
}
