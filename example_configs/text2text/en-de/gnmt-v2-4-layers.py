"""English to German, WMT: GNMT v2 as NVIDIA publishes it for PyTorch, with 4 layers.

Published: 24.4 BLEU on newstest2014 (cased, detokenised, sacreBLEU) for 4 layers and 8 GPUs, in NVIDIA's README.

The first decoder layer reads no context, so training computes whole layers over time and all steps of the attention at
once. Source and target share one table of embeddings. Two things differ: dropout also applies to the embeddings that
the decoder reads, and the warm-up is linear.

Data: Europarl v7, Common Crawl and News Commentary v11, encoded with a joint SentencePiece
model of 32320 pieces. scripts/prepare_wmt.py --vocab_size=32320 --output_dir=wmt16_gnmt_v2 prepares them from the
downloaded files.
Run:  python run.py --config_file=example_configs/text2text/en-de/gnmt-v2-4-layers.py --mode=train_eval

The published runs used 8 GPUs with 128 sentence pairs each; iter_size 8 makes the same update on one device. With
use_horovod and 8 workers, set iter_size to 1.
"""
base_config = "en-de-gnmt-like-4GPUs.py"
data_root = "wmt16_gnmt_v2/"
pieces = ".BPE_common.32320.tok"
num_layers = encoder_layers = decoder_layers = 4
max_steps = 20500  # six epochs of 3.5 million pairs

base_params = {
    "batch_size_per_gpu": 128,  # sentence pairs
    "iter_size": 8,
    "max_steps": max_steps,
    "save_summaries_steps": 100,
    "print_loss_steps": 50,
    "print_samples_steps": 1000,
    "eval_steps": 1000,
    "save_checkpoint_steps": 1000,
    "logdir": f"gnmt-v2-{num_layers}-layers-en-de",
    "dtype": "mixed",
    "loss_scaling": "Backoff",

    "max_grad_norm": 5.0,
    # Constant for two thirds of the run, then halved four times.
    "lr_policy_params": {"learning_rate": 2e-3, "warmup_steps": 200, "begin_decay_at": 7 * max_steps // 12,
                         "decay_steps": max_steps // 12, "min_lr": 2e-3 / 16},
    "decoder_params": {"input_feeding": False, "share_source_embedding": True},
    "loss": "CrossEntropyWithSmoothing",
    "loss_params": {"offset_target_by_one": True, "average_across_timestep": True, "do_mask": True,
                    "label_smoothing": 0.1},
}

train_params = {"data_layer_params": {"length_buckets": "<drop>"}}
eval_params = {"batch_size_per_gpu": 64, "data_layer_params": {"max_length": 125}}
infer_params = {"batch_size_per_gpu": 64, "decoder_params": {"beam_width": 5, "length_penalty": 0.6}}
