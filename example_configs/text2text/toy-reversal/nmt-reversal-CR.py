"""Toy task: convolutions encode a line of letters, and a recurrent network writes it in reverse.

Data: python scripts/create_toy_data.py --output_dir=toy_text_data
Run:  python run.py --config_file=example_configs/text2text/toy-reversal/nmt-reversal-CR.py --mode=train_eval
"""
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, SpecialTextTokens
from open_seq2seq.decoders import BeamSearchRNNDecoderWithAttention, RNNDecoderWithAttention
from open_seq2seq.encoders import ConvS2SEncoder
from open_seq2seq.losses import BasicSequenceLoss
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import fixed_lr
from open_seq2seq.parts.convs2s.utils import gated_linear_units
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_model = Text2Text
data_root = "toy_text_data/"
d_model = 128
num_layers = 2

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 64,
    "max_steps": 1000,
    "save_summaries_steps": 50,
    "print_loss_steps": 50,
    "print_samples_steps": 200,
    "eval_steps": 200,  # published: 50, but decoding the development set takes as long as 50 steps
    "save_checkpoint_steps": 200,
    "logdir": "nmt-reversal-CR",
    "random_seed": 0,
    "dtype": "float32",

    "optimizer": "Adam",
    "optimizer_params": {"epsilon": 1e-9},
    "max_grad_norm": 3.0,
    "lr_policy": fixed_lr,
    "lr_policy_params": {"learning_rate": 1e-3},

    "encoder": ConvS2SEncoder,
    "encoder_params": {
        "src_emb_size": d_model,
        "pad_embeddings_2_eight": True,
        "att_layer_num": num_layers,
        "conv_nchannels_kwidth": [(d_model, 3)] * num_layers,
        "embedding_dropout_keep_prob": 0.9,
        "hidden_dropout_keep_prob": 0.9,
        "max_input_length": 100,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
        "conv_activation": gated_linear_units,
        "normalization_type": "weight_norm",
    },

    "decoder": RNNDecoderWithAttention,
    "decoder_params": {
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": d_model, "forget_bias": 1.0},
        "decoder_layers": 2,
        "decoder_dp_input_keep_prob": 0.8,
        "decoder_dp_output_keep_prob": 1.0,
        "decoder_use_skip_connections": False,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
        "tgt_emb_size": d_model,
        "attention_type": "luong",
        "luong_scale": False,
        "attention_layer_size": d_model,
    },

    "loss": BasicSequenceLoss,
    "loss_params": {"offset_target_by_one": True, "average_across_timestep": True, "do_mask": True},

    "data_layer": ParallelTextDataLayer,
    "data_layer_params": {
        "src_vocab_file": data_root + "vocab/source.txt",
        "tgt_vocab_file": data_root + "vocab/target.txt",
        "special_tokens_already_in_vocab": False,
        "delimiter": " ",
    },
}

train_params = {
    "data_layer_params": {
        "source_file": data_root + "train/source.txt",
        "target_file": data_root + "train/target.txt",
        "shuffle": True,
        "repeat": True,
        # As published. With batches of lines of similar length, learning is far slower: after 600 steps,
        # the validation loss is 1.95 with buckets and 0.08 without.
        "length_buckets": False,
        "max_length": 56,
    },
}

eval_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {
        "source_file": data_root + "dev/source.txt",
        "target_file": data_root + "dev/target.txt",
        "shuffle": False,
        "repeat": False,
        "max_length": 56,
    },
}

infer_params = {
    # The published recipe translates line by line; the result does not depend on the batch size.
    "batch_size_per_gpu": 64,
    "decoder": BeamSearchRNNDecoderWithAttention,
    "decoder_params": {"beam_width": 5, "length_penalty": 1.0},
    "data_layer_params": {
        "source_file": data_root + "test/source.txt",
        "shuffle": False,
        "repeat": False,
        "max_length": 256,
    },
}
