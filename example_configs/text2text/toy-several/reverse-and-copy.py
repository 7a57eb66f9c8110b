"""Toy task: one encoder and two decoders, one of which reverses a line of letters while the other copies it.

Data: python scripts/create_toy_data.py --output_dir=toy_text_data
Run:  python run.py --config_file=example_configs/text2text/toy-several/reverse-and-copy.py --mode=train_eval

The two "languages" are `reversed` and `copied`; --language chooses one for inference:
python run.py --config_file=example_configs/text2text/toy-several/reverse-and-copy.py --mode=infer --language=copied
"""
from open_seq2seq.data import MultiCorpusDataLayer
from open_seq2seq.decoders import MultiDecoder, TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.models import MultiDecoderModel
from open_seq2seq.optimizers.lr_policies import transformer_policy

base_model = MultiDecoderModel
data_root = "toy_text_data/"
d_model = 128
num_layers = 2
sizes = {"hidden_size": d_model, "num_heads": 8, "filter_size": 4 * d_model, "attention_dropout": 0.1,
         "relu_dropout": 0.1, "layer_postprocess_dropout": 0.1}

base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 64,
    "max_steps": 1200,
    "save_summaries_steps": 50,
    "print_loss_steps": 50,
    "print_samples_steps": 400,
    "eval_steps": 400,
    "save_checkpoint_steps": 400,
    "best_metric": "Eval_BLEU_Score",  # the mean of both; Eval_BLEU_Score_copied is that of one
    "best_metric_mode": "max",
    "logdir": "reverse-and-copy",
    "random_seed": 0,
    "dtype": "float32",

    "optimizer": "LazyAdam",
    "optimizer_params": {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-9},
    "lr_policy": transformer_policy,
    "lr_policy_params": {"learning_rate": 1.0, "warmup_steps": 200, "d_model": d_model},

    "encoder": TransformerEncoder,
    "encoder_params": {**sizes, "encoder_layers": num_layers, "remove_padding": True},

    "decoder": MultiDecoder,
    "decoder_params": {
        "decoder": TransformerDecoder,
        "decoder_params": {
            **sizes,
            "num_hidden_layers": num_layers,
            "share_source_embedding": False,  # separate vocabularies
            "beam_size": 2,
            "alpha": 1.0,
            "extra_decode_length": 2,
            "EOS_ID": 1,
        },
    },

    "loss": PaddedCrossEntropyLossWithSmoothing,
    "loss_params": {"label_smoothing": 0.0},

    "data_layer": MultiCorpusDataLayer,
    "data_layer_params": {
        "src_vocab_file": data_root + "vocab/source.txt",
        "corpora": {
            "reversed": {"tgt_vocab_file": data_root + "vocab/target.txt"},
            "copied": {"tgt_vocab_file": data_root + "vocab/source.txt"},
        },
        "special_tokens_already_in_vocab": False,
        "use_start_token": False,
        "max_length": 56,
    },
}

train_params = {
    "data_layer_params": {
        "corpora": {
            # Copying is easier, so that it needs fewer examples.
            "reversed": {"source_file": data_root + "train/source.txt", "target_file": data_root + "train/target.txt",
                         "ratio": 2},
            "copied": {"source_file": data_root + "train/source.txt", "target_file": data_root + "train/source.txt",
                       "ratio": 1},
        },
        "length_buckets": False,  # as in the recipe for reversal alone
    },
}

eval_params = {
    "data_layer_params": {
        "corpora": {
            "reversed": {"source_file": data_root + "dev/source.txt", "target_file": data_root + "dev/target.txt"},
            "copied": {"source_file": data_root + "dev/source.txt", "target_file": data_root + "dev/source.txt"},
        },
    },
}

infer_params = {"data_layer_params": {"source_file": data_root + "test/source.txt"}}
