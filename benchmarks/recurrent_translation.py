"""Times training steps of GNMT: the toolkit's in several dtypes, and PyTorch's nn.LSTM in the same network.

    python benchmarks/recurrent_translation.py --dtypes float32,mixed --torch_python ~/torch/bin/python
    python benchmarks/recurrent_translation.py --input_feeding --layers 4 --hidden 512 --batch 128 --length 32

The implementations take turns on batches of the same shape: sentences of ``--length`` random tokens on both sides, so
that nothing is padded. A step includes the loss over the whole vocabulary and Adam. Without ``--input_feeding``, the
decoder is that of NVIDIA's GNMT v2, which needs no loop over the attention; with it, that of the original toolkit,
which does. The last lines are the raw products: the time of the step's matrix products alone, without any other
operation.
"""

from __future__ import annotations

import argparse
import os
import pprint
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from benchmarks.measuring.machine import describe_machine
from benchmarks.measuring.processes import call
from benchmarks.measuring.programs import markdown_table, run_program
from benchmarks.measuring.settings import make_setting
from benchmarks.measuring.torch_process import TorchProcess
from benchmarks.measuring.turns import Worker
from open_seq2seq.utils.errors import UserError

_BATCHES = 16


def write_config(folder: Path, options: argparse.Namespace) -> str:
    """Writes sentence pairs, their vocabulary and a config of the network; returns the config's path."""
    words = options.ids - 8  # besides the special tokens
    (folder / "vocab.txt").write_text("".join(f"w{number}\n" for number in range(words)), encoding="utf-8")
    random = np.random.default_rng(0)
    for side in ("source", "target"):
        rows = random.integers(words, size=[options.batch * _BATCHES, options.length - 1])  # and the end symbol
        lines = [" ".join(f"w{word}" for word in row) for row in rows]
        (folder / f"train.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "config.py"
    path.write_text(f"base_model = 'Text2Text'\nbase_params = {pprint.pformat(_params(folder, options))}\n",
                    encoding="utf-8")
    return str(path)


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


def raw_products(options: argparse.Namespace, dtype: str) -> float:
    """Returns the seconds of the products of one step, forward and backward, one after the other."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    return sum(3 * count * _seconds(rows, inner, columns, dtype)  # the gradient of a product has two products
               for count, rows, inner, columns in product_shapes(options) if count)


def product_shapes(options: argparse.Namespace) -> list[tuple[int, int, int, int]]:
    """Returns (count, rows, inner size, columns) for each kind of matrix product in a forward pass."""
    hidden, batch, length, rows = options.hidden, options.batch, options.length, options.batch * options.length
    layers, gates = options.layers, 4 * options.hidden
    fed = int(options.input_feeding)
    return [(3, rows, hidden, gates), (1, rows, 2 * hidden, gates), (layers - 2, rows, hidden, gates),  # inputs
            (layers - 1, rows, 2 * hidden, gates), (fed * length, batch, hidden, gates),
            ((2 * layers + 1) * length, batch, hidden, gates),  # states
            (1, rows, hidden, hidden), (1 - fed, rows, hidden, hidden), (fed * length, batch, hidden, hidden),
            (1, rows, hidden, options.ids)]


def _seconds(rows: int, inner: int, columns: int, dtype: str, repeats: int = 5) -> float:
    """Returns the median duration of one matrix product, in seconds."""
    import tensorflow as tf

    first, second = (tf.cast(tf.random.stateless_normal(shape, [1, 2]), dtype)
                     for shape in ([rows, inner], [inner, columns]))
    multiply = tf.function(lambda: tf.matmul(first, second), autograph=False)
    multiply()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        multiply().numpy()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def measure(options: argparse.Namespace) -> dict[str, list[float]]:
    """Returns the milliseconds per step of all rounds, by name."""
    names = options.dtypes.split(",")
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(options.threads)
    machine = describe_machine()
    shape = [options.layers, options.layers, options.hidden, options.ids, options.batch, options.length,
             int(options.input_feeding), options.threads, "float32"]
    torch = TorchProcess(options.torch_python, "torch_gnmt.py", shape) if options.torch_python else None
    found: dict[str, list[float]] = {"PyTorch, float32": []} if torch else {}
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(Path(folder), options)
        workers = [Worker(make_setting(name, machine.on_gpu), config, [], 2) for name in names]
        if torch:
            torch()
        for _ in range(options.rounds):
            if torch:
                found["PyTorch, float32"] += [1e3 * torch() for _ in range(options.steps)]
            for worker in workers:
                worker.run_round(options.steps)
        for worker in workers:
            found[f"ours, {worker.result.label}"] = worker.result.step_milliseconds
            worker.stop()
    if torch:
        torch.stop()
    return found


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Returns the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4, help="layers of the encoder, and of the decoder")
    parser.add_argument("--hidden", type=int, default=512, help="units of each layer, and size of the embeddings")
    parser.add_argument("--ids", type=int, default=8000, help="size of the vocabulary that both sides share")
    parser.add_argument("--batch", type=int, default=128, help="sentence pairs per batch")
    parser.add_argument("--length", type=int, default=32, help="tokens per sentence on each side")
    parser.add_argument("--input_feeding", action="store_true", help="the decoder of the original toolkit")
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
    first = statistics.median(next(iter(found.values())))
    rows = [[name, f"{statistics.median(values):,.0f}", f"{min(values):,.0f} to {max(values):,.0f}",
             f"{first / statistics.median(values):.2f}"] for name, values in found.items()]
    print(f"* {describe_machine()}, {options.threads} threads; {options.batch * options.length:,} target tokens a step")
    print(markdown_table(["", "ms, median", "range", f"speed by {next(iter(found))}"], rows))
    for dtype in ("float32", "bfloat16"):
        print(f"raw products in {dtype}: {1e3 * call(raw_products, options, dtype):,.0f} ms")


if __name__ == "__main__":
    run_program(main)
