"""English to German, WMT: a small recurrent network.

Published: above 20 BLEU on newstest2014 (tokenised, multi-bleu).

Data: Europarl v7, Common Crawl and News Commentary v11, encoded with a joint SentencePiece
model of 32768 pieces. scripts/prepare_wmt.py prepares them from the downloaded files.
Run:  python run.py --config_file=example_configs/text2text/en-de/en-de-nmt-small.py --mode=train_eval
"""
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, SpecialTextTokens
from open_seq2seq.decoders import BeamSearchRNNDecoderWithAttention, RNNDecoderWithAttention
from open_seq2seq.encoders import BidirectionalRNNEncoderWithEmbedding
from open_seq2seq.losses import BasicSequenceLoss
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import fixed_lr
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_model = Text2Text
data_root = "wmt16_de_en/"
num_units = 512

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 128,  # sentence pairs
    "max_steps": 160082,
    "save_summaries_steps": 50,
    "print_loss_steps": 48,
    "print_samples_steps": 48,
    "eval_steps": 1000,
    "save_checkpoint_steps": 2001,
    "logdir": "nmt-small-en-de",
    "dtype": "float32",

    "optimizer": "Adam",
    "optimizer_params": {},
    "lr_policy": fixed_lr,
    "lr_policy_params": {"learning_rate": 0.001},
    "larc_params": {"larc_eta": 0.001},
    "initializer": "glorot_uniform",

    "encoder": BidirectionalRNNEncoderWithEmbedding,
    "encoder_params": {
        "src_emb_size": num_units,
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": num_units, "forget_bias": 1.0},
        "encoder_layers": 2,
        "encoder_dp_input_keep_prob": 0.8,
        "encoder_dp_output_keep_prob": 1.0,
        "encoder_use_skip_connections": False,
    },

    "decoder": RNNDecoderWithAttention,
    "decoder_params": {
        "tgt_emb_size": num_units,
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": num_units, "forget_bias": 1.0},
        "decoder_layers": 2,
        "decoder_dp_input_keep_prob": 0.8,
        "decoder_dp_output_keep_prob": 1.0,
        "decoder_use_skip_connections": False,
        "attention_type": "gnmt_v2",
        "attention_layer_size": num_units,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    },

    "loss": BasicSequenceLoss,
    "loss_params": {"offset_target_by_one": True, "average_across_timestep": False, "do_mask": True},

    "data_layer": ParallelTextDataLayer,
    "data_layer_params": {
        "src_vocab_file": data_root + "m_common.vocab",
        "tgt_vocab_file": data_root + "m_common.vocab",
        # Evaluates and writes text; the published recipe wrote pieces and joined them with tokenizer_wrapper.py.
        "detokenize": True,
        "delimiter": " ",
    },
}

train_params = {
    "data_layer_params": {
        "source_file": data_root + "train.clean.en.shuffled.BPE_common.32K.tok",
        "target_file": data_root + "train.clean.de.shuffled.BPE_common.32K.tok",
        "shuffle": True,
        "repeat": True,
        "length_buckets": False,  # as published; buckets need less padding
        "max_length": 50,
    },
}

eval_params = {
    "batch_size_per_gpu": 32,
    "data_layer_params": {
        "source_file": data_root + "wmt13-en-de.src.BPE_common.32K.tok",
        "target_file": data_root + "wmt13-en-de.ref.BPE_common.32K.tok",
        "shuffle": False,
        "repeat": False,
        "max_length": 50,
    },
}

infer_params = {
    "batch_size_per_gpu": 1,
    "decoder": BeamSearchRNNDecoderWithAttention,
    "decoder_params": {"beam_width": 10, "length_penalty": 1.0},
    "data_layer_params": {
        "source_file": data_root + "wmt14-en-de.src.BPE_common.32K.tok",
        "shuffle": False,
        "repeat": False,
        "max_length": 256,
    },
}
