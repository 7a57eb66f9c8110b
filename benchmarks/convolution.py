"""Times a 1-D convolution and its gradients: TensorFlow's own gradients, and those by convolutions or products.

usage: python benchmarks/convolution.py [--rounds 9] [--dtype bfloat16] [--shape 11,256,256,1,8,200 ...]

A shape is taps, input channels, output channels, stride, batch and frames. Both versions run forward and backward
passes on the same inputs, alternately; the reported ratio is the median over the pairs. In the second version, the
gradient of the kernel is computed by products if oneDNN is on and the stride is 1, and by a convolution otherwise; the
last line of the output says whether oneDNN is on. open_seq2seq.parts.conv_blocks.convolution decides which version is
used in training.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import tensorflow as tf

from benchmarks.measuring.programs import markdown_table, run_program
from open_seq2seq.parts.conv_blocks.gradient import Steps, convolve_1d
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.processor import has_onednn

Shape = tuple[int, ...]
# Taps, input channels, output channels, stride, batch and frames; docs/speed.md has the times.
SHAPES: tuple[Shape, ...] = (
    (11, 64, 96, 1, 24, 80), (13, 128, 128, 1, 24, 80), (17, 128, 192, 1, 24, 80), (11, 256, 256, 1, 8, 200),
    (13, 384, 384, 1, 8, 200), (17, 512, 512, 1, 4, 200), (11, 64, 256, 2, 8, 800), (29, 896, 896, 1, 2, 64),
    (11, 256, 256, 1, 1, 200))


def parse_shape(text: str) -> Shape:
    """Returns taps, input channels, output channels, stride, batch and frames.

    Raises:
      UserError: the text is not six positive integers, or there are fewer frames than taps.
    """
    numbers = tuple(int(part) for part in text.split(",") if part.strip().isdigit())
    if len(numbers) != 6 or len(numbers) != text.count(",") + 1 or min(numbers) < 1 or numbers[5] < numbers[0]:
        raise UserError(f"--shape must be six positive integers TAPS,IN,OUT,STRIDE,BATCH,FRAMES, got {text!r}; FRAMES "
                        "must be at least TAPS.")
    return numbers


def ways(shape: Shape) -> tuple[Callable, Callable]:
    """Returns two versions of a shape's convolution.

    The first has TensorFlow's own gradients, the second those of ``convolve_1d``. Both are functions of the input
    ``[batch, frames, input channels]`` and the kernel ``[taps, input channels, output channels]``.
    """
    taps, stride = shape[0], shape[3]
    before = (taps - 1) // 2
    steps = Steps(stride) if stride > 1 else Steps(pads=(before, taps - 1 - before))
    padding = "VALID" if stride > 1 else "SAME"
    return (lambda x, kernel: tf.nn.convolution(x, kernel, [stride], padding),
            lambda x, kernel: convolve_1d(x, kernel, steps, by_products=stride == 1 and has_onednn()))


def with_gradients(convolve: Callable, x: tf.Tensor, kernel: tf.Tensor) -> Callable[[], list[tf.Tensor]]:
    """Returns a function that runs a compiled forward and backward pass on ``x`` and ``kernel``.

    The function returns the sum of squares of each gradient.
    """
    def run(x: tf.Tensor, kernel: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch([x, kernel])
            y = convolve(x, kernel)
        slopes = tape.gradient(y, [x, kernel], output_gradients=y)
        return [tf.reduce_sum(tf.square(tf.cast(slope, tf.float32))) for slope in slopes]

    compiled = tf.function(run, autograph=False, input_signature=[
        tf.TensorSpec([None, None, x.shape[-1]], x.dtype), tf.TensorSpec(kernel.shape, x.dtype)])
    return lambda: compiled(x, kernel)


def measure(shape: Shape, rounds: int, dtype: str) -> list[str]:
    """Times both versions of one shape alternately; returns a row of the table.

    Args:
      shape: see ``parse_shape``.
      rounds: number of timed passes of each version.
      dtype: name of the dtype of the input and the kernel.
    """
    taps, inputs, outputs, stride, batch, frames = shape
    x = tf.random.stateless_normal([batch, frames, inputs], seed=[0, 1])
    kernel = tf.random.stateless_normal([taps, inputs, outputs], seed=[0, 2]) / (taps * inputs) ** 0.5
    functions = [with_gradients(way, tf.cast(x, dtype), tf.cast(kernel, dtype)) for way in ways(shape)]
    results = [[value.numpy() for value in function()] for function in functions]
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter()
            for value in function():
                value.numpy()
            taken.append(1000.0 * (time.perf_counter() - start))
    ratios = [own / ours for own, ours in zip(*times, strict=True)]
    difference = max(abs(own / ours - 1.0) for own, ours in zip(*results, strict=True))
    stride_text = f", stride {stride}" if stride > 1 else ""
    return [f"{taps}, {inputs} → {outputs}{stride_text}", f"{batch} × {frames}",
            *(f"{statistics.median(taken):.1f}" for taken in times),
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})", f"{difference:.0e}"]


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="number of timed pairs (default: %(default)s)")
    parser.add_argument("--shape", nargs="+", help="TAPS,IN,OUT,STRIDE,BATCH,FRAMES (default: the shapes in "
                        "docs/speed.md)")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="default: %(default)s")
    args = parser.parse_args(argv)
    if args.rounds < 1:
        raise UserError("--rounds must be at least 1.")
    shapes = [parse_shape(text) for text in args.shape] if args.shape else SHAPES
    print(markdown_table(["taps, channels in → out", "batch × frames", "TensorFlow's ms", "ms", "times as fast",
                          "relative difference"], [measure(shape, args.rounds, args.dtype) for shape in shapes]))
    print(f"\noneDNN is {'on: kernel gradients by products' if has_onednn() else 'off: by convolutions'}.")


if __name__ == "__main__":
    run_program(main)
