"""Toy task: questions and answers, in columns of a TSV file that have names.

Data: python scripts/create_toy_data.py --task=dialogue
Run:  python run.py --config_file=example_configs/text2text/toy-tables/dialogue.py --mode=train_eval

A question such as "second of γ α β" has the answer "it is α". For other pairs in one file, set the columns.
"""
from open_seq2seq.data import TableTextDataLayer
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import transformer_policy

base_model = Text2Text
data_root = "toy_dialogue/"
ending = ".tsv"
d_model = 128
num_layers = 2
sizes = {"hidden_size": d_model, "num_heads": 8, "filter_size": 4 * d_model, "attention_dropout": 0.1,
         "relu_dropout": 0.1, "layer_postprocess_dropout": 0.1}

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 64,
    "max_steps": 800,
    "save_summaries_steps": 50,
    "print_loss_steps": 50,
    "print_samples_steps": 200,
    "eval_steps": 200,
    "save_checkpoint_steps": 400,
    "best_metric": "Eval_BLEU_Score",
    "best_metric_mode": "max",
    "logdir": "toy-dialogue",
    "random_seed": 0,
    "dtype": "float32",

    "optimizer": "LazyAdam",
    "optimizer_params": {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-9},
    "lr_policy": transformer_policy,
    "lr_policy_params": {"learning_rate": 1.0, "warmup_steps": 200, "d_model": d_model},

    "encoder": TransformerEncoder,
    "encoder_params": {**sizes, "encoder_layers": num_layers, "remove_padding": True},

    "decoder": TransformerDecoder,
    "decoder_params": {
        **sizes,
        "num_hidden_layers": num_layers,
        "beam_size": 2,
        "alpha": 1.0,
        "extra_decode_length": 2,
        "EOS_ID": 1,
    },

    "loss": PaddedCrossEntropyLossWithSmoothing,
    "loss_params": {"label_smoothing": 0.0},

    "data_layer": TableTextDataLayer,
    "data_layer_params": {
        "source_column": "question",
        "target_column": "answer",
        "src_vocab_file": data_root + "vocab/source.txt",
        "tgt_vocab_file": data_root + "vocab/target.txt",
        "special_tokens_already_in_vocab": False,
        "use_start_token": False,
        "max_length": 80,
    },
}

train_params = {"data_layer_params": {"source_file": data_root + "train" + ending, "length_buckets": False}}
eval_params = {"data_layer_params": {"source_file": data_root + "dev" + ending}}
infer_params = {"data_layer_params": {"source_file": data_root + "test" + ending}}
