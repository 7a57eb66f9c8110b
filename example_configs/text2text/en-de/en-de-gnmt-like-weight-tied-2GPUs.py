"""English to German, WMT: a small network like GNMT whose output projection is the table of the embeddings.

No result was published for this config. The published recipe ran on two GPUs with 32 sentence pairs each.

Data: the files of the WMT16 script of TensorFlow's seq2seq tutorial, tokenised by Moses and split by
subword-nmt.
Run:  python run.py --config_file=example_configs/text2text/en-de/en-de-gnmt-like-weight-tied-2GPUs.py --mode=train_eval
"""
base_config = "en-de-gnmt-like-4GPUs.py"
data_root = "wmt16_de_en/"
num_units = 200
emb_size = 80


def text(name, language):
    return f"{data_root}{name}.bpe.32000.{language}"


base_params = {
    "save_summaries_steps": 10,
    "print_loss_steps": 10,
    "print_samples_steps": 10,
    "eval_steps": 40,
    "save_checkpoint_steps": 40,
    "logdir": "gnmt-like-weight-tied-en-de",
    "decoder_params": {"attention_layer_size": 1024, "weight_tied": True},
    "data_layer_params": {
        "src_vocab_file": data_root + "vocab.bpe.32000",
        "tgt_vocab_file": data_root + "vocab.bpe.32000",
        "pad_vocab_to_eight": "<drop>",
        "detokenize": "<drop>",
    },
}

train_params = {"data_layer_params": {"source_file": text("train.tok.clean", "en"),
                                      "target_file": text("train.tok.clean", "de")}}
eval_params = {"data_layer_params": {"source_file": text("newstest2013.tok", "en"),
                                     "target_file": text("newstest2013.tok", "de")}}
infer_params = {"data_layer_params": {"source_file": text("newstest2014.tok", "en"), "max_length": 64}}
