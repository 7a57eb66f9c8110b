# A Transformer in the style of the configs of NVIDIA's OpenSeq2Seq; data of scripts/create_toy_data.py in text/.
from __future__ import absolute_import, division, print_function, unicode_literals

import tensorflow as tf

from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer
from open_seq2seq.data.text2text.tokenizer import EOS_ID
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import transformer_policy

base_model = Text2Text
d_model = 16
data_root = "text/"
vocabularies = {"src_vocab_file": data_root + "vocab/source.txt", "tgt_vocab_file": data_root + "vocab/target.txt"}


def data(split, **more):
    return {"source_file": data_root + split + "/source.txt", "target_file": data_root + split + "/target.txt",
            "delimiter": " ", "special_tokens_already_in_vocab": False, "max_length": 24,
            "map_parallel_calls": 16, "prefetch_buffer_size": 2, **vocabularies, **more}


base_params = {
    "use_horovod": False, "num_gpus": 1, "batch_size_per_gpu": 8, "max_steps": 20, "save_summaries_steps": 10,
    "print_loss_steps": 10, "print_samples_steps": 20, "eval_steps": 20, "save_checkpoint_steps": 20,
    "logdir": "translation_log",
    "optimizer": tf.contrib.opt.LazyAdamOptimizer,
    "optimizer_params": {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-09},
    "lr_policy": transformer_policy,
    "lr_policy_params": {"learning_rate": 1.0, "warmup_steps": 10, "d_model": d_model},
    "summaries": ["learning_rate", "variables", "gradients", "larc_summaries", "variable_norm", "gradient_norm",
                  "global_gradient_norm"],
    "dtype": tf.float32,
    "encoder": TransformerEncoder,
    "encoder_params": {
        "encoder_layers": 1, "hidden_size": d_model, "num_heads": 2, "attention_dropout": 0.1, "filter_size": 32,
        "relu_dropout": 0.1, "layer_postprocess_dropout": 0.1, "pad_embeddings_2_eight": True, "remove_padding": True},
    "decoder": TransformerDecoder,
    "decoder_params": {
        "layer_postprocess_dropout": 0.1, "num_hidden_layers": 1, "hidden_size": d_model, "num_heads": 2,
        "attention_dropout": 0.1, "relu_dropout": 0.1, "filter_size": 32, "beam_size": 2, "alpha": 1.0,
        "extra_decode_length": 2, "EOS_ID": EOS_ID, "GO_SYMBOL": 1, "END_SYMBOL": 1, "PAD_SYMBOL": 0},
    "loss": PaddedCrossEntropyLossWithSmoothing,
    "loss_params": {"label_smoothing": 0.0},
}
train_params = {"data_layer": ParallelTextDataLayer,
                "data_layer_params": data("train", shuffle=True, shuffle_buffer_size=25000, repeat=True)}
eval_params = {"data_layer": ParallelTextDataLayer, "data_layer_params": data("dev", shuffle=False, repeat=False)}
infer_params = {"batch_size_per_gpu": 1, "data_layer": ParallelTextDataLayer,
                "data_layer_params": data("test", shuffle=False, repeat=False)}
