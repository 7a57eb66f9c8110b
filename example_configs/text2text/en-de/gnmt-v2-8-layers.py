"""English to German, WMT: GNMT v2 as NVIDIA publishes it for PyTorch, with 8 layers.

NVIDIA's README gives 24.4 BLEU on newstest2014 (cased, detokenised, sacreBLEU) for 4 layers and 8 GPUs.

The first decoder layer reads no context, so training computes whole layers over time and all steps of the attention at
once. Source and target share one table of embeddings. Two things differ: dropout also applies to the embeddings that
the decoder reads, and the warm-up is linear.

Data: Europarl v7, Common Crawl and News Commentary v11, encoded with a joint SentencePiece
model of 32320 pieces. scripts/prepare_wmt.py --vocab_size=32320 prepares them from the downloaded files.
Run:  python run.py --config_file=example_configs/text2text/en-de/gnmt-v2-8-layers.py --mode=train_eval

The published runs used 8 GPUs with 128 sentence pairs each; iter_size 8 makes the same update on one device. With
use_horovod and 8 workers, set iter_size to 1.
"""
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, SpecialTextTokens
from open_seq2seq.decoders import BeamSearchRNNDecoderWithAttention, RNNDecoderWithAttention
from open_seq2seq.encoders import GNMTLikeEncoderWithEmbedding
from open_seq2seq.losses import CrossEntropyWithSmoothing
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import exp_decay
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_model = Text2Text
data_root = "wmt16_de_en/"
num_units = 1024
num_layers = 8
max_steps = 20500  # six epochs of 3.5 million pairs

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 128,  # sentence pairs
    "iter_size": 8,
    "max_steps": max_steps,
    "save_summaries_steps": 100,
    "print_loss_steps": 50,
    "print_samples_steps": 1000,
    "eval_steps": 1000,
    "save_checkpoint_steps": 1000,
    "logdir": "gnmt-v2-8-layers-en-de",
    "dtype": "mixed",
    "loss_scaling": "Backoff",

    "optimizer": "Adam",
    "optimizer_params": {},
    "max_grad_norm": 5.0,
    # Constant for two thirds of the run, then halved four times.
    "lr_policy": exp_decay,
    "lr_policy_params": {
        "learning_rate": 2e-3,
        "warmup_steps": 200,
        "begin_decay_at": 7 * max_steps // 12,
        "decay_steps": max_steps // 12,
        "decay_rate": 0.5,
        "use_staircase_decay": True,
        "min_lr": 2e-3 / 16,
    },
    "initializer": "random_uniform",
    "initializer_params": {"minval": -0.1, "maxval": 0.1},

    "encoder": GNMTLikeEncoderWithEmbedding,
    "encoder_params": {
        "src_emb_size": num_units,
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": num_units, "forget_bias": 1.0},
        "encoder_layers": num_layers,
        "encoder_dp_input_keep_prob": 0.8,
        "encoder_dp_output_keep_prob": 1.0,
        "encoder_use_skip_connections": True,
    },

    "decoder": RNNDecoderWithAttention,
    "decoder_params": {
        "tgt_emb_size": num_units,
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": num_units, "forget_bias": 1.0},
        "decoder_layers": num_layers,
        "decoder_dp_input_keep_prob": 0.8,
        "decoder_dp_output_keep_prob": 1.0,
        "decoder_use_skip_connections": True,
        "attention_type": "gnmt_v2",
        "input_feeding": False,
        "share_source_embedding": True,
        "attention_layer_size": num_units,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    },

    "loss": CrossEntropyWithSmoothing,
    "loss_params": {"offset_target_by_one": True, "average_across_timestep": True, "do_mask": True,
                    "label_smoothing": 0.1},

    "data_layer": ParallelTextDataLayer,
    "data_layer_params": {
        "src_vocab_file": data_root + "m_common.vocab",
        "tgt_vocab_file": data_root + "m_common.vocab",
        "pad_vocab_to_eight": True,
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
        "max_length": 50,
    },
}

eval_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {
        "source_file": data_root + "wmt13-en-de.src.BPE_common.32K.tok",
        "target_file": data_root + "wmt13-en-de.ref.BPE_common.32K.tok",
        "shuffle": False,
        "repeat": False,
        "max_length": 125,
    },
}

infer_params = {
    "batch_size_per_gpu": 64,
    "decoder": BeamSearchRNNDecoderWithAttention,
    "decoder_params": {"beam_width": 5, "length_penalty": 0.6},
    "data_layer_params": {
        "source_file": data_root + "wmt14-en-de.src.BPE_common.32K.tok",
        "shuffle": False,
        "repeat": False,
        "max_length": 512,
    },
}
