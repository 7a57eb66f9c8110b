"""Times the CTC loss and its gradient, and compares them with TensorFlow's implementations.

usage: python benchmarks/ctc_loss.py [--kernels here,ctc_loss_op,tf_dense] [--rounds 5]

`here` is open_seq2seq.parts.ctc, `ctc_loss_op` is TensorFlow's CPU kernel (tf.raw_ops.CTCLoss), and `tf_dense` is
TensorFlow's loop of operations (tf.nn.ctc_loss with dense labels), which takes minutes on long labels. They run
alternately on the same inputs. Two columns show how accurate each is: the largest error of a loss, compared with a
recursion in float64, and the largest absolute sum over the symbols of a frame's gradient, which should be 0.
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

import numpy as np
import tensorflow as tf

from benchmarks.measuring.programs import markdown_table, run_program
from open_seq2seq.parts.ctc import ctc_loss
from open_seq2seq.utils.errors import UserError

SHAPES = ((32, 150, 29, 20), (32, 800, 29, 200), (32, 300, 1025, 60))  # batch, frames, symbols, longest label
Inputs = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]


def _ctc_loss_op(logits: tf.Tensor, labels: tf.Tensor, label_lengths: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the losses ``[batch]`` for the arguments that ``make_inputs`` returns."""
    places = tf.where(tf.sequence_mask(label_lengths, tf.shape(labels)[1]))

    @tf.custom_gradient
    def loss(time_major: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        losses, slope = tf.raw_ops.CTCLoss(
            inputs=time_major, labels_indices=places, labels_values=tf.gather_nd(labels, places),
            sequence_length=lengths, ignore_longer_outputs_than_inputs=True)
        return losses, lambda upstream: upstream[:, tf.newaxis] * slope

    return loss(tf.transpose(logits, [1, 0, 2]))


def _tf_dense(logits: tf.Tensor, labels: tf.Tensor, label_lengths: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    return tf.nn.ctc_loss(labels, logits, label_lengths, lengths, logits_time_major=False, blank_index=-1)


KERNELS = {"here": ctc_loss, "ctc_loss_op": _ctc_loss_op, "tf_dense": _tf_dense}


def make_inputs(batch: int, frames: int, symbols: int, label: int) -> Inputs:
    """Returns a random batch, whose labels never contain equal adjacent symbols.

    Args:
      batch: number of examples.
      frames: largest number of frames.
      symbols: number of symbols, including the blank, which is last.
      label: largest length of a label.

    Returns:
      (logits ``[batch, frames, symbols]``, labels ``[batch, label]``, label lengths ``[batch]``, numbers of frames
      ``[batch]``).
    """
    rng = np.random.default_rng(0)
    steps = rng.integers(1, symbols - 1, (batch, label))
    labels = np.cumsum(steps, axis=1) % (symbols - 1)
    return (tf.constant(rng.normal(size=(batch, frames, symbols)), tf.float32), tf.constant(labels, tf.int32),
            tf.constant(rng.integers(label // 2, label + 1, batch), tf.int32),
            tf.constant(rng.integers(frames * 4 // 5, frames + 1, batch), tf.int32))


def exact_losses(inputs: Inputs) -> np.ndarray:
    """Returns the losses ``[batch]``, computed by the forward recursion in float64.

    Args:
      inputs: the batch, as returned by ``make_inputs``.
    """
    found = []
    for logits, labels, count, steps in zip(*(tensor.numpy() for tensor in inputs), strict=True):
        log_probs = logits.astype(np.float64)
        log_probs -= np.logaddexp.reduce(log_probs, axis=1, keepdims=True)
        # The states are the label's symbols, with blanks before, between and after them. A state between two different
        # symbols may be skipped.
        states = np.full(2 * count + 1, logits.shape[1] - 1)
        states[1::2] = labels[:count]
        skips = np.where(np.r_[True, True, states[2:] == states[:-2]], -np.inf, 0.0)
        alpha = np.full(len(states), -np.inf)
        alpha[:2] = log_probs[0, states[:2]]
        for frame in log_probs[1:steps, states]:
            one, two = np.r_[-np.inf, alpha[:-1]], np.r_[-np.inf, -np.inf, alpha[:-2]] + skips
            alpha = np.logaddexp(np.logaddexp(alpha, one), two) + frame
        found.append(-np.logaddexp.reduce(alpha[-2:]))
    return np.array(found)


def with_gradient(loss: Callable) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    """Returns a compiled function that computes the losses, and the gradient of their sum by the logits.

    The function takes what ``make_inputs`` returns, as separate arguments, and returns (losses ``[batch]``, gradient
    ``[batch, frames, symbols]``).
    """
    def run(logits: tf.Tensor, *others: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = loss(logits, *others)
        return losses, tape.gradient(losses, logits)

    return tf.function(run, autograph=False)


def measure(names: list[str], inputs: Inputs, rounds: int) -> list[list[str]]:
    """Measures the kernels alternately on one batch; returns a row of the table for each.

    Args:
      names: the kernels to measure, keys of ``KERNELS``.
      inputs: the batch, as returned by ``make_inputs``.
      rounds: number of timed passes of each kernel.
    """
    functions = {name: with_gradient(KERNELS[name]) for name in names}
    exact = exact_losses(inputs)
    results = {name: [value.numpy() for value in function(*inputs)] for name, function in functions.items()}
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            function(*inputs)[1].numpy()
            times[name].append(1000.0 * (time.perf_counter() - start))
    shape = "×".join(str(size) for size in (*inputs[0].shape, inputs[1].shape[1]))
    return [[shape, name, f"{statistics.median(times[name]):.1f}", f"{min(times[name]):.1f}",
             f"{np.abs(results[name][0] - exact).max():.1e}",
             f"{np.abs(results[name][1].sum(-1)).max():.1e}"] for name in names]


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", default="here,ctc_loss_op", help="comma-separated, out of " + ", ".join(KERNELS))
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default: %(default)s)")
    args = parser.parse_args(argv)
    names = [name.strip() for name in args.kernels.split(",")]
    unknown = [name for name in names if name not in KERNELS]
    if unknown or args.rounds < 1:
        raise UserError(f"--kernels must be some of {', '.join(KERNELS)}, and --rounds at least 1.")
    rows = [row for shape in SHAPES for row in measure(names, make_inputs(*shape), args.rounds)]
    print(markdown_table(["batch×frames×symbols×label", "kernel", "ms, median", "fastest", "error of the loss",
                          "largest sum of a frame's gradient"], rows))


if __name__ == "__main__":
    run_program(main)
