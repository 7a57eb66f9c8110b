"""Times training steps of GNMT: the toolkit's in several dtypes, and PyTorch's nn.LSTM in the same network.

    python benchmarks/recurrent_translation.py --dtypes float32,mixed --torch_python ~/torch/bin/python
    python benchmarks/recurrent_translation.py --input_feeding --layers 4 --hidden 512 --batch 128 --length 32

The implementations take turns on batches of the same shape: sentences of ``--length`` random tokens on both sides, so
that nothing is padded. A step includes the loss over the whole vocabulary and Adam. Without ``--input_feeding``, the
decoder is that of NVIDIA's GNMT v2, which computes the attention for all target positions at once. With it, the decoder
is that of NVIDIA's OpenSeq2Seq, which computes the attention in its loop over the positions. The last lines, "raw
products", give the time of the step's matrix products alone, without any other operation.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from benchmarks.measuring.machine import describe_machine
from benchmarks.measuring.products import Product, describe_products
from benchmarks.measuring.programs import run_program
from benchmarks.measuring.settings import make_setting
from benchmarks.measuring.side_by_side import Pass, comparison_table, mean_pass, take_turns
from benchmarks.measuring.small_models import write_config
from benchmarks.measuring.torch_process import TorchProcess
from benchmarks.measuring.turns import Worker
from open_seq2seq.utils.errors import UserError

_BATCHES = 16  # in an epoch


def write_gnmt(folder: Path, options: argparse.Namespace) -> str:
    """Writes sentence pairs, their vocabulary and a config of the network; returns the config's path."""
    words = options.ids - 8  # besides the special tokens
    (folder / "vocab.txt").write_text("".join(f"w{number}\n" for number in range(words)), encoding="utf-8")
    random = np.random.default_rng(0)
    for side in ("source", "target"):
        # The data layer appends the end symbol, the last of ``length`` tokens.
        rows = random.integers(words, size=[options.batch * _BATCHES, options.length - 1])
        lines = [" ".join(f"w{word}" for word in row) for row in rows]
        (folder / f"train.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(write_config(folder / "config.py", "Text2Text", {"base_params": _params(folder, options)}))


def _params(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    cell = {"core_cell": "LSTMCell", "core_cell_params": {"num_units": options.hidden, "forget_bias": 1.0}}
    vocabulary = str(folder / "vocab.txt")
    return {
        "batch_size_per_gpu": options.batch, "max_steps": 100_000, "random_seed": 0, "logdir": str(folder / "run"),
        "optimizer": "Adam", "lr_policy": "fixed_lr", "lr_policy_params": {"learning_rate": 1e-4},
        "encoder": "GNMTLikeEncoderWithEmbedding",
        "encoder_params": {"src_emb_size": options.hidden, "encoder_layers": options.layers,
                           "encoder_dp_input_keep_prob": 0.8, "encoder_use_skip_connections": True, **cell},
        "decoder": "RNNDecoderWithAttention",
        "decoder_params": {"tgt_emb_size": options.hidden, "decoder_layers": options.layers,
                           "decoder_dp_input_keep_prob": 0.8, "decoder_use_skip_connections": True,
                           "attention_type": "gnmt_v2", "attention_layer_size": options.hidden,
                           "input_feeding": options.input_feeding, "weight_tied": True,
                           "share_source_embedding": True, "GO_SYMBOL": 2, "END_SYMBOL": 1, **cell},
        "loss": "PaddedCrossEntropyLossWithSmoothing", "loss_params": {"label_smoothing": 0.1},
        "data_layer": "ParallelTextDataLayer",
        "data_layer_params": {"src_vocab_file": vocabulary, "tgt_vocab_file": vocabulary, "delimiter": " ",
                              "special_tokens_already_in_vocab": False, "use_start_token": False,
                              "max_length": options.length, "pad_vocab_to_eight": False, "shuffle": True,
                              "source_file": str(folder / "train.source"),
                              "target_file": str(folder / "train.target")}}


def product_shapes(options: argparse.Namespace) -> list[Product]:
    """Returns the matrix products of a forward pass."""
    hidden, batch, length, rows = options.hidden, options.batch, options.length, options.batch * options.length
    layers, gates = options.layers, 4 * options.hidden
    fed = int(options.input_feeding)
    return [Product(3, rows, hidden, gates), Product(1, rows, 2 * hidden, gates),
            Product(layers - 2, rows, hidden, gates),  # inputs
            Product(layers - 1, rows, 2 * hidden, gates), Product(fed, batch, hidden, gates, length),
            Product(2 * layers + 1, batch, hidden, gates, length),  # states
            Product(1, rows, hidden, hidden), Product(1 - fed, rows, hidden, hidden),
            Product(fed, batch, hidden, hidden, length), Product(1, rows, hidden, options.ids)]


def measure(options: argparse.Namespace) -> dict[str, list[float]]:
    """Returns the mean milliseconds per step in each round, by the program's name."""
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(options.threads)
    on_gpu = describe_machine().on_gpu
    shape = [options.layers, options.layers, options.hidden, options.ids, options.batch, options.length,
             int(options.input_feeding), options.threads, "float32"]
    passes: dict[str, Pass] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if options.torch_python:
            torch = stack.enter_context(TorchProcess(options.torch_python, "torch_gnmt", shape))
            passes["PyTorch, float32"] = mean_pass(torch, options.steps)
        config = write_gnmt(Path(folder), options)
        for name in options.dtypes.split(","):
            worker = stack.enter_context(Worker(make_setting(name, on_gpu), config, [], 2))
            passes[f"ours, {worker.result.label}"] = worker.steps_pass(options.steps)
        return take_turns(passes, options.rounds)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Returns the parsed options; raises UserError if a value is invalid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4, help="layers of the encoder, and of the decoder")
    parser.add_argument("--hidden", type=int, default=512, help="units of each layer, and size of the embeddings")
    parser.add_argument("--ids", type=int, default=8000, help="size of the vocabulary that both sides share")
    parser.add_argument("--batch", type=int, default=128, help="sentence pairs per batch")
    parser.add_argument("--length", type=int, default=32, help="tokens per sentence on each side")
    parser.add_argument("--input_feeding", action="store_true", help="the decoder of NVIDIA's OpenSeq2Seq")
    parser.add_argument("--dtypes", default="float32", help="comma-separated dtypes of the toolkit's steps")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each")
    parser.add_argument("--steps", type=int, default=3, help="steps per round")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads per library")
    parser.add_argument("--torch_python", default="", help="Python interpreter that has PyTorch")
    options = parser.parse_args(argv)
    if min(options.layers, options.length) < 2 or options.ids < 16:
        raise UserError("--layers and --length have to be at least 2, and --ids at least 16.")
    return options


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    options = parse_arguments(argv)
    found = measure(options)
    print(f"* {describe_machine()}, {options.threads} threads; {options.batch * options.length:,} target tokens a step")
    print(comparison_table(found))
    print("\n".join(describe_products("raw products", product_shapes(options), options.threads)))


if __name__ == "__main__":
    run_program(main)
