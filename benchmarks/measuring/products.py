"""The duration of matrix products alone: a bound for networks that consist of such products."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from benchmarks.measuring.processes import call

Product = tuple[int, int, int, int]
"""How often matrices are multiplied, and their rows, inner size and columns."""


def describe_products(name: str, products: Sequence[Product], threads: int) -> list[str]:
    """Returns lines about the products of one step, forward and backward, in float32 and bfloat16.

    Args:
      name: what the products belong to.
      products: the products of the forward pass.
      threads: number of threads.
    """
    flops = sum(6 * count * rows * inner * columns for count, rows, inner, columns in products)
    lines = []
    for dtype in ("float32", "bfloat16"):
        seconds = call(step_seconds, products, dtype, threads)
        lines.append(f"{name} in {dtype}: {1e3 * seconds:,.0f} ms, {flops / seconds / 1e9:.3g} GFLOP/s")
    return lines


def step_seconds(products: Sequence[Product], dtype: str, threads: int) -> float:
    """Returns the seconds of the products of one step, forward and backward, one after the other."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    return sum(3 * count * _seconds(rows, inner, columns, dtype)  # the gradient of a product has two products
               for count, rows, inner, columns in products if count)


def _seconds(rows: int, inner: int, columns: int, dtype: str, repeats: int = 5) -> float:
    """Returns the median duration of a product of matrices."""
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
