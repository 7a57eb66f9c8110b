"""Passes of several programs in turns, and the table that compares their durations."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.measuring.programs import markdown_table

Pass = Callable[[], float]
"""Makes one pass, such as a training step, and returns its duration in seconds."""


def mean_pass(one_pass: Pass, count: int) -> Pass:
    """Returns a function that makes ``count`` passes, and returns their mean duration."""
    return lambda: statistics.fmean(one_pass() for _ in range(count))


def gradient_pass(forward: Callable[[Any], Any], x: Any, variables: Sequence[Any]) -> Pass:
    """Returns a pass forward and backward, which computes the gradients of the input and of all weights.

    Args:
      forward: the function from ``x`` to an FP32 tensor, whose squares are summed to a loss.
      x: the input, an FP32 tensor; only the size of its last axis is static in the graph.
      variables: the weights.
    """
    import tensorflow as tf

    signature = tf.TensorSpec([None] * (len(x.shape) - 1) + [x.shape[-1]])

    @tf.function(input_signature=[signature], autograph=False)
    def forward_and_backward(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(forward(x)))
        # Gradients on which only control dependencies depend would be removed from the graph.
        return loss, tape.gradient(loss, [x, *variables])

    def one_pass() -> float:
        start = time.perf_counter()
        float(forward_and_backward(x)[0])
        return time.perf_counter() - start

    return one_pass


def take_turns(passes: Mapping[str, Pass], rounds: int) -> dict[str, list[float]]:
    """Returns the durations of all passes in milliseconds, by name.

    In each round, every program makes one pass. Another round before them is not counted: it traces functions and fills
    caches.
    """
    for one_pass in passes.values():
        one_pass()
    found: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(rounds):
        for name, one_pass in passes.items():
            found[name].append(1e3 * one_pass())
    return found


def comparison_table(found: Mapping[str, list[float]], unit: str = "", count: int = 0) -> str:
    """Returns a Markdown table of durations and of the speeds relative to the first row.

    Args:
      found: milliseconds of all rounds, by name.
      unit: unit of the objects that a pass processes; empty for no column of their speed.
      count: number of objects that a pass processes.
    """
    first, reference = next((name, statistics.median(values)) for name, values in found.items())
    rows = []
    for name, values in found.items():
        median = statistics.median(values)
        speed = [f"{1e3 * count / median:,.0f}"] if unit else []
        rows.append([name, f"{median:,.{_places(median)}f}", f"{min(values):,.{_places(median)}f} to "
                     f"{max(values):,.{_places(median)}f}", *speed, f"{reference / median:.2f}"])
    return markdown_table(["", "ms, median", "range", *([f"{unit}/s"] if unit else []), f"speed by {first}"], rows)


def _places(milliseconds: float) -> int:
    return 0 if milliseconds >= 100.0 else 1
