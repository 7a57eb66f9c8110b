"""Times forward and backward passes of recurrent stacks: the toolkit's in float32 and bfloat16, Keras's and PyTorch's.

    python benchmarks/recurrence.py --cell gru --layers 2 --hidden 512 --batch 32 --steps 200
    python benchmarks/recurrence.py --cell gru --torch_python ~/torch/bin/python

In each round, every implementation makes one pass with the same shapes and computes the gradients of the inputs and of
all weights; each direction has its own weights. The table contains the medians. PyTorch (nn.GRU or nn.LSTM, in float32
and with bfloat16 autocast) is measured if ``--torch_python`` names an interpreter that has it; it uses the same number
of threads.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.programs import run_program
from benchmarks.measuring.side_by_side import Pass, gradient_pass
from benchmarks.measuring.torch_process import TorchProcess


def our_pass(options: argparse.Namespace, dtype: str) -> Pass:
    """Returns a function that makes one pass of the toolkit's stack and returns its duration in seconds."""
    import tensorflow as tf

    from open_seq2seq.parts.component import creating_variables
    from open_seq2seq.parts.precision import weight_cast_scope
    from open_seq2seq.parts.rnn.layers import RecurrentStack

    with creating_variables(1):
        stack = RecurrentStack(options.input, options.hidden, options.layers, options.cell, not options.unidirectional)
    lengths = tf.fill([options.batch], options.steps)

    def forward(x: Any) -> Any:
        with weight_cast_scope():
            return tf.cast(stack(tf.cast(x, dtype), lengths), tf.float32)

    return _tensorflow_pass(options, forward, stack.trainable_variables)


def keras_pass(options: argparse.Namespace) -> Pass:
    """Returns a function that makes one pass of Keras's layers in float32 and returns its duration in seconds."""
    import tensorflow as tf

    kind = tf.keras.layers.LSTM if options.cell == "lstm" else tf.keras.layers.GRU
    layers = [kind(options.hidden, return_sequences=True) for _ in range(options.layers)]
    model = tf.keras.Sequential([layer if options.unidirectional else tf.keras.layers.Bidirectional(layer)
                                 for layer in layers])
    model.build([None, None, options.input])
    return _tensorflow_pass(options, model, [variable.value for variable in model.trainable_variables])


def _tensorflow_pass(options: argparse.Namespace, forward: Callable[[Any], Any], variables: Any) -> Pass:
    import tensorflow as tf

    x = tf.random.stateless_normal([options.batch, options.steps, options.input], [1, 2])
    return gradient_pass(forward, x, variables)


def torch_pass(options: argparse.Namespace, dtype: str) -> TorchProcess:
    """Returns a process that makes passes of PyTorch's layers; calling it makes a pass and returns its seconds."""
    return TorchProcess(options.torch_python, "torch_recurrence", [
        options.cell, options.layers, options.hidden, options.input, options.batch, options.steps,
        int(not options.unidirectional), options.threads, dtype])


def measure(options: argparse.Namespace) -> dict[str, list[float]]:
    """Returns the durations of all rounds in seconds, by implementation."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    passes: dict[str, Any] = {f"ours, {dtype}": our_pass(options, dtype) for dtype in options.dtypes}
    if options.cell in ("gru", "lstm"):
        passes["Keras, float32"] = keras_pass(options)
    torch = [torch_pass(options, dtype) for dtype in options.dtypes] if options.torch_python else []
    passes.update(zip((f"PyTorch, {dtype}" for dtype in options.dtypes), torch, strict=False))
    for one_pass in passes.values():  # untimed: traces the functions and fills caches
        one_pass()
        one_pass()
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(options.rounds):
        for name, one_pass in passes.items():
            seconds[name].append(one_pass())
    for process in torch:
        process.stop()
    return seconds


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cell", default="gru", choices=["lstm", "gru", "classic_gru", "layernorm_lstm"],
                        help="type of cell")
    parser.add_argument("--layers", type=int, default=2, help="number of recurrent layers")
    parser.add_argument("--hidden", type=int, default=512, help="units per direction")
    parser.add_argument("--input", type=int, default=768, help="input channels")
    parser.add_argument("--batch", type=int, default=32, help="utterances per batch")
    parser.add_argument("--steps", type=int, default=200, help="frames per utterance")
    parser.add_argument("--unidirectional", action="store_true", help="forward direction only")
    parser.add_argument("--rounds", type=int, default=10, help="timed passes of each implementation")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads per library")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"],
                        help="dtypes to measure; without bfloat16 instructions, PyTorch's bfloat16 takes minutes")
    parser.add_argument("--torch_python", default="", help="Python interpreter that has PyTorch")
    options = parser.parse_args(argv)
    seconds = measure(options)
    first, reference = next((name, statistics.median(values)) for name, values in seconds.items())
    print(f"| | ms, median | ms, least | speed by {first} |\n|---|---|---|---|")
    for name, values in seconds.items():
        middle = statistics.median(values)
        print(f"| {name} | {1e3 * middle:.0f} | {1e3 * min(values):.0f} | {reference / middle:.2f} |")


if __name__ == "__main__":
    run_program(main)
