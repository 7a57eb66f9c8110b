"""English to German on Multi30k: a small GNMT in NVIDIA's form that two CPU cores can train.

Multi30k (Elliott et al. 2016) has 29000 sentence pairs, so regularisation matters, and dropout is high. The text is
raw, that is, cased and not tokenised; only the SentencePiece model splits it. Training is short, so embeddings must
not start small, nor attention almost uniform: see embedding_scale and score_scale_init.

Data: python scripts/prepare_multi30k.py --data_dir=FOLDER --output_dir=multi30k
Run:  python run.py --config_file=example_configs/text2text/en-de/gnmt-multi30k.py --mode=train_eval
"""
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, SpecialTextTokens
from open_seq2seq.decoders import RNNDecoderWithAttention
from open_seq2seq.encoders import GNMTLikeEncoderWithEmbedding
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import exp_decay
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_model = Text2Text
data_root = "multi30k/"
num_units = 320
num_layers = 2
keep_prob = 0.7
uniform = {"initializer": "random_uniform", "initializer_params": {"minval": -0.1, "maxval": 0.1}}
max_steps = 2800

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 2048,  # tokens: see batch_size_unit
    "max_steps": max_steps,
    "save_summaries_steps": 100,
    "print_loss_steps": 100,
    "print_samples_steps": 500,
    "eval_steps": 500,
    "save_checkpoint_steps": 250,
    "average_checkpoints": 5,
    "logdir": "gnmt-multi30k-en-de",
    "random_seed": 0,
    "dtype": "mixed",

    "optimizer": "Adam",
    "optimizer_params": {},
    "max_grad_norm": 5.0,
    "lr_policy": exp_decay,
    "lr_policy_params": {
        "learning_rate": 2e-3,
        "warmup_steps": 200,
        "begin_decay_at": max_steps // 2,
        "decay_steps": max_steps // 8,
        "decay_rate": 0.5,
        "use_staircase_decay": True,
    },

    "encoder": GNMTLikeEncoderWithEmbedding,
    "encoder_params": {
        **uniform,
        "src_emb_size": num_units,
        "embedding_scale": 10.0,
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": num_units, "forget_bias": 1.0},
        "encoder_layers": num_layers,
        "encoder_dp_input_keep_prob": keep_prob,
        "encoder_dp_output_keep_prob": 1.0,
        "encoder_use_skip_connections": True,
    },

    "decoder": RNNDecoderWithAttention,
    "decoder_params": {
        **uniform,
        "tgt_emb_size": num_units,
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": num_units, "forget_bias": 1.0},
        "decoder_layers": num_layers,
        "decoder_dp_input_keep_prob": keep_prob,
        "decoder_dp_output_keep_prob": 0.8,
        "decoder_use_skip_connections": True,
        "attention_type": "gnmt_v2",
        "attention_layer_size": num_units,
        "score_scale_init": 3.0,
        "embedding_scale": 10.0,
        "input_feeding": False,
        "encoder_state": "dense",
        "weight_tied": True,
        "share_source_embedding": True,
        "beam_width": 4,
        "length_penalty": 0.6,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    },

    "loss": PaddedCrossEntropyLossWithSmoothing,
    "loss_params": {"label_smoothing": 0.1},

    "data_layer": ParallelTextDataLayer,
    "data_layer_params": {
        # One model for both languages: source and target share a vocabulary of 8000 unigram pieces.
        "tokenizer": {"type": "sentencepiece", "model": data_root + "spm8k.model"},
        "use_start_token": False,
    },
}

train_params = {
    "data_layer_params": {
        "source_file": data_root + "train.en",
        "target_file": data_root + "train.de",
        "batch_size_unit": "tokens",
        "shuffle": True,
        "max_length": 100,
    },
}

eval_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {
        "source_file": data_root + "val.en",
        "target_file": data_root + "val.de",
        "max_length": 256,
    },
}

infer_params = {
    "batch_size_per_gpu": 64,
    "data_layer_params": {
        "source_file": data_root + "test_2016_flickr.en",
        "max_length": 256,
    },
}
