"""Times single layers and losses beside those of TensorFlow, Keras and PyTorch.

    python benchmarks/kernels.py convolution --dtypes bfloat16 --shapes 11,256,256,1,8,200 3,256,512,1,250,16
    python benchmarks/kernels.py ctc_loss --shapes 32,150,29,20
    python benchmarks/kernels.py recurrence --cell gru --layers 2 --hidden 512 --shapes 32,200,768
    python benchmarks/kernels.py recurrence --cell lstm --unidirectional --hidden 256 --shapes 32,35,256

All are measured in turns: forward and backward passes on the same random inputs, with the gradients of all inputs and
weights.

``convolution``: a convolution over time with TensorFlow's own gradients, and with those by convolutions or products. A
shape is taps, input channels, output channels, stride, batch and frames. In the second version, the gradient of the
kernel is computed by products if oneDNN is on and the stride is 1, and by a convolution otherwise;
``parts.conv_blocks.convolution`` decides which version is used in training.

``ctc_loss``: ``parts.ctc``, TensorFlow's CPU kernel ``tf.raw_ops.CTCLoss``. A shape is batch, frames, symbols and
longest label.

``recurrence``: stacks of recurrent layers in float32 and bfloat16, and beside ``lstm`` and ``gru`` Keras' layers, and
PyTorch's if ``--torch_python`` names an interpreter that has it; each direction has its own weights. A shape is batch,
frames and input channels. The lines "raw products" give the time of the matrix products alone.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from benchmarks.measuring.peer_process import PeerProcess
from benchmarks.measuring.products import Product, describe_products
from benchmarks.measuring.programs import (
    Pass,
    comparison_table,
    make_parser,
    markdown_table,
    run_program,
    take_turns,
    timed_pass,
    with_range,
)
from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.conv_blocks.convolution import Steps, convolve_1d
from open_seq2seq.parts.ctc import ctc_loss
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.rnn.layers import RecurrentStack
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.machine import has_onednn

Shape = Sequence[int]
# Number of values of a shape, and the shapes of the tables in the documentation.
SHAPES: dict[str, tuple[int, list[Shape]]] = {
    "convolution": (6, [(11, 64, 96, 1, 24, 80), (13, 128, 128, 1, 24, 80), (17, 128, 192, 1, 24, 80),
                        (11, 256, 256, 1, 8, 200), (13, 384, 384, 1, 8, 200), (17, 512, 512, 1, 4, 200),
                        (11, 64, 256, 2, 8, 800), (29, 896, 896, 1, 2, 64), (11, 256, 256, 1, 1, 200),
                        (3, 256, 512, 1, 250, 16), (5, 256, 512, 1, 64, 64)]),
    "ctc_loss": (4, [(32, 150, 29, 20), (32, 800, 29, 200), (32, 300, 1025, 60)]),
    "recurrence": (3, [(32, 200, 768)])}


def with_gradients(forward: Callable[..., tf.Tensor], inputs: Sequence[tf.Tensor],
                   variables: Sequence[Any] = ()) -> Callable[[], tf.Tensor]:
    """Returns a compiled forward and backward pass, in which the output is also its own gradient.

    Args:
      forward: the function of ``inputs``.
      inputs: the inputs; of the first one, only the size of the last axis is static in the graph.
      variables: the weights.

    Returns:
      A function that returns the sum of squares of each gradient: those of the inputs, then those of the weights.
    """
    first = tf.TensorSpec([None] * (len(inputs[0].shape) - 1) + [inputs[0].shape[-1]], inputs[0].dtype)

    @tf.function(autograph=False, input_signature=[first, *(tf.TensorSpec(x.shape, x.dtype) for x in inputs[1:])])
    def compiled(*inputs: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = forward(*inputs)
        slopes = tape.gradient(y, [*inputs, *variables], output_gradients=y)
        return tf.stack([tf.reduce_sum(tf.square(tf.cast(slope, tf.float32))) for slope in slopes])

    return lambda: compiled(*inputs)


def measure_convolutions(shapes: Sequence[Shape], options: argparse.Namespace) -> str:
    """Returns the table of convolutions; the ratio is the median over the rounds."""
    rows = []
    for dtype, (taps, inputs, outputs, stride, batch, frames) in itertools.product(options.dtypes, shapes):
        x = tf.cast(tf.random.stateless_normal([batch, frames, inputs], seed=[0, 1]), dtype)
        kernel = tf.random.stateless_normal([taps, inputs, outputs], seed=[0, 2]) / (taps * inputs) ** 0.5
        ways = [with_gradients(way, [x, tf.cast(kernel, dtype)]) for way in convolutions(taps, stride)]
        passes = {str(number): timed_pass(way) for number, way in enumerate(ways)}
        theirs, ours = take_turns(passes, options.rounds).values()
        ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
        difference = np.abs(ways[1]().numpy() / ways[0]().numpy() - 1.0).max()
        rows.append([dtype, f"{taps}, {inputs} → {outputs}", stride, f"{batch} × {frames}",
                     f"{statistics.median(theirs):.1f}", f"{statistics.median(ours):.1f}", with_range(ratios, ".2f"),
                     f"{difference:.0e}"])
    table = markdown_table(["dtype", "taps, channels in → out", "stride", "batch × frames", "TensorFlow's ms", "ms",
                            "times as fast", "relative difference"], rows)
    return f"{table}\n\noneDNN is {'on: kernel gradients by products' if has_onednn() else 'off: by convolutions'}."


def convolutions(taps: int, stride: int) -> tuple[Callable[..., tf.Tensor], Callable[..., tf.Tensor]]:
    """Returns two versions of a convolution: with TensorFlow's own gradients, and with those of ``convolve_1d``."""
    before = (taps - 1) // 2
    steps = Steps(stride) if stride > 1 else Steps(pads=(before, taps - 1 - before))
    padding = "VALID" if stride > 1 else "SAME"
    return (lambda x, kernel: tf.nn.convolution(x, kernel, [stride], padding),
            lambda x, kernel: convolve_1d(x, kernel, steps, by_products=stride == 1 and has_onednn()))


def measure_ctc_losses(shapes: Sequence[Shape], options: argparse.Namespace) -> str:
    """Returns the tables of CTC losses; labels never contain equal adjacent symbols."""
    tables = []
    for batch, frames, symbols, longest in shapes:
        rng = np.random.default_rng(0)
        logits = tf.constant(rng.normal(size=(batch, frames, symbols)), tf.float32)
        labels = tf.constant(np.cumsum(rng.integers(1, symbols - 1, (batch, longest)), 1) % (symbols - 1), tf.int32)
        label_lengths = tf.constant(rng.integers(longest // 2, longest + 1, batch), tf.int32)
        lengths = tf.constant(rng.integers(frames * 4 // 5, frames + 1, batch), tf.int32)
        losses = {"tf.raw_ops.CTCLoss": _ctc_loss_op, "here": ctc_loss}
        passes = {name: timed_pass(with_gradients(
            functools.partial(loss, labels=labels, label_lengths=label_lengths, lengths=lengths), [logits]))
            for name, loss in losses.items()}
        tables.append(f"{batch} × {frames} frames, {symbols} symbols, labels of up to {longest}:\n\n"
                      f"{comparison_table(take_turns(passes, options.rounds))}")
    return "\n\n".join(tables)


def _ctc_loss_op(logits: tf.Tensor, labels: tf.Tensor, label_lengths: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the losses ``[batch]`` of TensorFlow's kernel for the arguments of ``ctc_loss``."""
    indices = tf.where(tf.sequence_mask(label_lengths, tf.shape(labels)[1]))

    @tf.custom_gradient
    def loss(time_major: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        losses, slope = tf.raw_ops.CTCLoss(
            inputs=time_major, labels_indices=indices, labels_values=tf.gather_nd(labels, indices),
            sequence_length=lengths, ignore_longer_outputs_than_inputs=True)
        return losses, lambda upstream: upstream[:, tf.newaxis] * slope

    return loss(tf.transpose(logits, [1, 0, 2]))


def measure_recurrences(shapes: Sequence[Shape], options: argparse.Namespace) -> str:
    """Returns the tables of recurrent stacks, and the times of their matrix products."""
    tables = []
    for batch, length, size in shapes:
        options.batch, options.length, options.input = batch, length, size
        x = tf.random.stateless_normal([batch, length, size], [1, 2])
        passes: dict[str, Pass] = {f"ours, {dtype}": _our_recurrence(x, dtype, options) for dtype in options.dtypes}
        has_peers = options.cell in ("gru", "lstm")
        if has_peers:
            passes["Keras, float32"] = _keras_recurrence(x, options)
        with contextlib.ExitStack() as stack:
            for dtype in options.dtypes if options.torch_python and has_peers else ():
                passes[f"PyTorch, {dtype}"] = stack.enter_context(PeerProcess(
                    "torch_networks", options, network="recurrence", dtype=dtype, steps=1))
            tables += [comparison_table(take_turns(passes, options.rounds)),
                       describe_products(recurrent_products(options), options.threads)]
    return "\n\n".join(tables)


def _our_recurrence(x: tf.Tensor, dtype: str, options: argparse.Namespace) -> Pass:
    with creating_variables(1):
        stack = RecurrentStack(x.shape[-1], options.hidden, options.layers, options.cell, not options.unidirectional)

    def forward(x: tf.Tensor) -> tf.Tensor:
        with forward_pass():
            return tf.cast(stack(tf.cast(x, dtype), tf.fill([tf.shape(x)[0]], tf.shape(x)[1])), tf.float32)

    return timed_pass(with_gradients(forward, [x], stack.trainable_variables))


def _keras_recurrence(x: tf.Tensor, options: argparse.Namespace) -> Pass:
    kind = tf.keras.layers.LSTM if options.cell == "lstm" else tf.keras.layers.GRU
    layers = [kind(options.hidden, return_sequences=True) for _ in range(options.layers)]
    model = tf.keras.Sequential([layer if options.unidirectional else tf.keras.layers.Bidirectional(layer)
                                 for layer in layers])
    model.build([None, None, x.shape[-1]])
    return timed_pass(with_gradients(model, [x], [variable.value for variable in model.trainable_variables]))


def recurrent_products(options: argparse.Namespace) -> list[Product]:
    """Returns the matrix products of a forward pass of a recurrent stack."""
    directions = 1 if options.unidirectional else 2
    gates = (4 if "lstm" in options.cell else 3) * options.hidden
    rows = options.batch * options.length
    return [Product(directions, rows, options.input, gates),
            Product(directions * (options.layers - 1), rows, directions * options.hidden, gates),
            Product(directions * options.layers, options.batch, options.hidden, gates, options.length)]


MEASURE = {"convolution": measure_convolutions, "ctc_loss": measure_ctc_losses, "recurrence": measure_recurrences}


def parse_shape(kernel: str, text: str) -> Shape:
    """Returns the values of a shape.

    Raises:
      UserError: the text is not as many positive integers as the kernel needs.
    """
    values = tuple(int(part) for part in text.split(",") if part.strip().isdigit())
    count = SHAPES[kernel][0]
    if len(values) != count or len(values) != text.count(",") + 1 or min(values) < 1:
        raise UserError(f"--shapes must be {count} positive integers for {kernel}, as --help says, got {text!r}.")
    return values


def main(argv: list[str]) -> None:
    """Measures and prints the tables."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("kernel", choices=list(SHAPES))
    add("--shapes", nargs="+", help="comma-separated numbers (default: those of the documentation's tables)")
    add("--rounds", type=int, default=9, help="timed passes of each")
    add("--threads", type=int, default=os.cpu_count(), help="threads per library")
    add("--dtypes", nargs="+", default=["float32", "bfloat16"], help="convolution, recurrence: dtypes to measure; "
        "without bfloat16 instructions, PyTorch's bfloat16 takes minutes")
    add("--cell", default="gru", choices=["lstm", "gru", "classic_gru", "layernorm_lstm"], help="recurrence: cell")
    add("--layers", type=int, default=2, help="recurrence: number of layers")
    add("--hidden", type=int, default=512, help="recurrence: units per direction")
    add("--unidirectional", action="store_true", help="recurrence: forward direction only")
    add("--torch_python", default="", help="recurrence: Python interpreter that has PyTorch")
    options = parser.parse_args(argv)
    shapes = [parse_shape(options.kernel, text) for text in options.shapes] if options.shapes else (
        SHAPES[options.kernel][1])
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    print(MEASURE[options.kernel](shapes, options))


if __name__ == "__main__":
    run_program(main)
