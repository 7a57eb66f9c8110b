"""Your own language pair: a Transformer, ConvS2S or GNMT for some thousand to some million sentence pairs.

Data: python scripts/prepare_text.py --table=pairs.tsv --languages es en --output_dir=own_text
Run:  python run.py --config_file=example_configs/text2text/own-text.py --mode=train_eval

docs/own-text.md describes every step, from the table of sentence pairs to translations.
"""
import os

# The six things to choose, in a config of your own that names this one as its base_config:
data_dir = "own_text/"          # 1. --output_dir of prepare_text.py
source, target = "es", "en"     # 2. --languages of prepare_text.py
model = "transformer"           # 3. transformer, convs2s or gnmt
size = "small"                  # 4. small: up to some 200,000 pairs; base: more pairs and a GPU (not measured)
batch_tokens = 2048             # 5. tokens in a batch: half as many if the memory is too small
max_steps = 10000               # 6. most updates; training ends earlier if dev does not get better

if model not in ("transformer", "convs2s", "gnmt") or size not in ("small", "base"):
    raise ValueError(f"model is {model!r} and size is {size!r}: model must be transformer, convs2s or gnmt, and size "
                     "small or base")
base_config = f"en-de/{model}-multi30k.py"  # these are the small models
max_length = 128
if size == "base":
    d_model, num_units, num_heads = 512, 1024, 8
    num_layers = {"transformer": 6, "convs2s": 8, "gnmt": 4}[model]
    dropout, keep_prob = 0.1, 0.8

print_steps = max(1, min(100, max_steps // 20))
eval_steps = 5 * print_steps

base_params = {
    "use_horovod": "<drop>",
    "num_gpus": "<drop>",
    "batch_size_per_gpu": batch_tokens,
    "max_steps": max_steps,
    "save_summaries_steps": print_steps,
    "print_loss_steps": print_steps,
    "print_samples_steps": eval_steps,
    "eval_steps": eval_steps,
    "save_checkpoint_steps": eval_steps,
    "average_checkpoints": "<drop>",
    # With few pairs, translations still improve when the loss on dev already rises. chrF needs no spaces between words.
    "best_metric": "Eval_chrF_Score",
    "best_metric_mode": "max",
    "stop_after_evals_without_gain": 5,
    "logdir": "own-text-model",
    "source_language": source,
    "target_language": target,

    # learning_rate is the highest rate, after the first tenth of the updates; it then falls to 0, slowly at first. That
    # of "small" was measured (docs/own-text.md); that of "base" is the published recipes' for such a batch.
    "lr_policy": "poly_decay",
    "lr_policy_params": {"learning_rate": 1e-3 if size == "base" else 2e-3, "warmup_share": 0.1, "power": 0.5},

    "data_layer_params": {"tokenizer": {"model": os.path.join(data_dir, "spm.model")}},
}

train_params = {
    "data_layer_params": {
        "source_file": os.path.join(data_dir, "train." + source),
        "target_file": os.path.join(data_dir, "train." + target),
        "max_length": max_length,
    },
}

eval_params = {
    "data_layer_params": {
        "source_file": os.path.join(data_dir, "dev." + source),
        "target_file": os.path.join(data_dir, "dev." + target),
        "max_length": 512,
    },
}

infer_params = {"data_layer_params": {"source_file": os.path.join(data_dir, "test." + source), "max_length": 512}}
