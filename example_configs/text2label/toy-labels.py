"""Toy task: a Transformer's encoder and a softmax tell which letter is the most frequent in a line.

Data: python scripts/create_toy_data.py --task=labels
Run:  python run.py --config_file=example_configs/text2label/toy-labels.py --mode=train_eval

Any encoder of text can take the place of this one. For other data, set the columns of label and text, and the classes.
"""
from open_seq2seq.data import LabelledTextDataLayer
from open_seq2seq.decoders import SoftmaxDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import Text2Label
from open_seq2seq.optimizers.lr_policies import transformer_policy

base_model = Text2Label
data_root = "toy_labels/"
d_model = 64

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 64,
    "max_steps": 600,
    "save_summaries_steps": 50,
    "print_loss_steps": 50,
    "print_samples_steps": 300,
    "eval_steps": 200,
    "save_checkpoint_steps": 300,
    "best_metric": "Eval_accuracy",
    "best_metric_mode": "max",
    "logdir": "toy-labels",
    "random_seed": 0,
    "dtype": "float32",

    "optimizer": "LazyAdam",
    "optimizer_params": {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-9},
    "lr_policy": transformer_policy,
    "lr_policy_params": {"learning_rate": 0.5, "warmup_steps": 200, "d_model": d_model},

    "encoder": TransformerEncoder,
    "encoder_params": {
        "encoder_layers": 2,
        "hidden_size": d_model,
        "num_heads": 4,
        "filter_size": 4 * d_model,
        "attention_dropout": 0.1,
        "relu_dropout": 0.1,
        "layer_postprocess_dropout": 0.1,
        "remove_padding": True,
    },

    "decoder": SoftmaxDecoder,
    "decoder_params": {"pooling": ["mean", "max"]},

    "loss": CrossEntropyLoss,
    "loss_params": {"label_smoothing": 0.0},

    "data_layer": LabelledTextDataLayer,
    "data_layer_params": {
        "src_vocab_file": data_root + "vocab/source.txt",
        "special_tokens_already_in_vocab": False,
        "label_file": data_root + "labels.txt",
        "label_column": 1,
        "text_column": 2,
        "max_length": 56,
    },
}

train_params = {"data_layer_params": {"text_file": data_root + "train.tsv"}}
eval_params = {"data_layer_params": {"text_file": data_root + "dev.tsv"}}
infer_params = {"data_layer_params": {"text_file": data_root + "test.tsv"}}
