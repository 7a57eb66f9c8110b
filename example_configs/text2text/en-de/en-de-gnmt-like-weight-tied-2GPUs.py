"""English to German, WMT: a small network like GNMT whose output projection is the table of the embeddings.

No result was published for this config.

Data: the files of the WMT16 script of TensorFlow's seq2seq tutorial, tokenised by Moses and split by
subword-nmt.
Run:  python run.py --config_file=example_configs/text2text/en-de/en-de-gnmt-like-weight-tied-2GPUs.py --mode=train_eval

The published recipe ran on two GPUs with 32 sentence pairs each; this config
has the same values but runs on one device. iter_size enlarges the batch of each update, as more GPUs do.
"""
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, SpecialTextTokens
from open_seq2seq.decoders import BeamSearchRNNDecoderWithAttention, RNNDecoderWithAttention
from open_seq2seq.encoders import GNMTLikeEncoderWithEmbedding
from open_seq2seq.losses import BasicSequenceLoss
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import exp_decay
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_model = Text2Text
data_root = "wmt16_de_en/"
num_units = 200

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 32,  # sentence pairs
    "max_steps": 340000,
    "save_summaries_steps": 10,
    "print_loss_steps": 10,
    "print_samples_steps": 10,
    "eval_steps": 40,
    "save_checkpoint_steps": 40,
    "logdir": "gnmt-like-weight-tied-en-de",
    "dtype": "float32",

    "optimizer": "Adam",
    "optimizer_params": {},
    "lr_policy": exp_decay,
    "lr_policy_params": {
        "learning_rate": 0.0008,
        "begin_decay_at": 170000,
        "decay_steps": 17000,
        "decay_rate": 0.5,
        "use_staircase_decay": True,
        "min_lr": 0.0000005,
    },
    "max_grad_norm": 32768.0,
    "initializer": "random_uniform",
    "initializer_params": {"minval": -0.1, "maxval": 0.1},

    "encoder": GNMTLikeEncoderWithEmbedding,
    "encoder_params": {
        "src_emb_size": 80,
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": num_units, "forget_bias": 1.0},
        "encoder_layers": 7,
        "encoder_dp_input_keep_prob": 0.8,
        "encoder_dp_output_keep_prob": 1.0,
        "encoder_use_skip_connections": True,
    },

    "decoder": RNNDecoderWithAttention,
    "decoder_params": {
        "tgt_emb_size": 80,
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": num_units, "forget_bias": 1.0},
        "decoder_layers": 8,
        "decoder_dp_input_keep_prob": 0.8,
        "decoder_dp_output_keep_prob": 1.0,
        "decoder_use_skip_connections": True,
        "attention_type": "gnmt_v2",
        "attention_layer_size": 1024,
        "weight_tied": True,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    },

    "loss": BasicSequenceLoss,
    "loss_params": {"offset_target_by_one": True, "average_across_timestep": True, "do_mask": True},

    "data_layer": ParallelTextDataLayer,
    "data_layer_params": {
        "src_vocab_file": data_root + "vocab.bpe.32000",
        "tgt_vocab_file": data_root + "vocab.bpe.32000",
        "delimiter": " ",
    },
}

train_params = {
    "data_layer_params": {
        "source_file": data_root + "train.tok.clean.bpe.32000.en",
        "target_file": data_root + "train.tok.clean.bpe.32000.de",
        "shuffle": True,
        "repeat": True,
        "length_buckets": False,  # as published; buckets need less padding
        "max_length": 50,
    },
}

eval_params = {
    "batch_size_per_gpu": 16,
    "data_layer_params": {
        "source_file": data_root + "newstest2013.tok.bpe.32000.en",
        "target_file": data_root + "newstest2013.tok.bpe.32000.de",
        "shuffle": False,
        "repeat": False,
        "max_length": 32,
    },
}

infer_params = {
    "batch_size_per_gpu": 1,
    "decoder": BeamSearchRNNDecoderWithAttention,
    "decoder_params": {"beam_width": 10, "length_penalty": 1.0},
    "data_layer_params": {
        "source_file": data_root + "newstest2014.tok.bpe.32000.en",
        "shuffle": False,
        "repeat": False,
        "max_length": 64,
    },
}
