"""Toy task: a Transformer learns to reverse a line of letters.

Data: python scripts/create_toy_data.py --output_dir=toy_text_data
Run:  python run.py --config_file=example_configs/text2text/toy-reversal/nmt-reversal-TT.py --mode=train_eval
Time: about four minutes on two CPU cores
Score: 97 to 99 BLEU on the test set
"""
from open_seq2seq.data.text2text.text2text import SpecialTextTokens

base_model = "Text2Text"
data_root = "toy_text_data/"
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
    "eval_steps": 200,  # published: 50, but decoding the development set takes as long as 50 steps
    "save_checkpoint_steps": 300,
    "logdir": "nmt-reversal-TT",
    "random_seed": 0,
    "dtype": "float32",

    "optimizer": "LazyAdam",
    "optimizer_params": {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-9},
    "lr_policy": "transformer_policy",
    "lr_policy_params": {"learning_rate": 1.0, "warmup_steps": 200, "d_model": d_model},

    "encoder": "TransformerEncoder",
    "encoder_params": {**sizes, "encoder_layers": num_layers, "remove_padding": True},

    "decoder": "TransformerDecoder",
    "decoder_params": {
        **sizes,
        "num_hidden_layers": num_layers,
        "beam_size": 5,
        "alpha": 1.0,
        "extra_decode_length": 2,
        "EOS_ID": SpecialTextTokens.EOS_ID.value,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    },

    "loss": "PaddedCrossEntropyLossWithSmoothing",
    "loss_params": {"label_smoothing": 0.0},

    "data_layer": "ParallelTextDataLayer",
    "data_layer_params": {
        "src_vocab_file": data_root + "vocab/source.txt",
        "tgt_vocab_file": data_root + "vocab/target.txt",
        "special_tokens_already_in_vocab": False,
        "use_start_token": False,
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
    "data_layer_params": {
        "source_file": data_root + "test/source.txt",
        "shuffle": False,
        "repeat": False,
        "max_length": 256,
    },
}
