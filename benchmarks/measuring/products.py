"""The duration of matrix products alone, with which the duration of a training step is compared."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.measuring.processes import call
from benchmarks.measuring.programs import timed_pass


class Product(NamedTuple):
    """Products of rows with matrices in a forward pass.

    Attributes:
      matrices: number of matrices.
      rows: number of rows in each product.
      inner: number of rows of each matrix.
      columns: number of columns of each matrix.
      steps: number of products with each matrix, which have to be computed one after the other.
    """

    matrices: int
    rows: int
    inner: int
    columns: int
    steps: int = 1

    @property
    def multiplications(self) -> int:
        """Number of multiplications in the forward pass."""
        return self.matrices * self.steps * self.rows * self.inner * self.columns

    def with_gradients(self) -> list[tuple[int, int, int, int]]:
        """Returns (number of products, rows, inner size, columns) of the forward pass and of both gradients.

        The gradient of a matrix is one product over all steps.
        """
        times = self.matrices * self.steps
        return [(times, self.rows, self.inner, self.columns), (times, self.rows, self.columns, self.inner),
                (self.matrices, self.inner, self.steps * self.rows, self.columns)]


def describe_products(products: Sequence[Product], threads: int) -> str:
    """Returns lines about the products of one step, forward and backward, in float32 and bfloat16.

    Args:
      products: the products of the forward pass.
      threads: number of threads.
    """
    flops = 6 * sum(product.multiplications for product in products)
    seconds = {dtype: call(_step_seconds, products, dtype, threads) for dtype in ("float32", "bfloat16")}
    return "\n".join(f"raw products in {dtype}: {1e3 * value:,.0f} ms, {flops / value / 1e9:.3g} GFLOP/s"
                     for dtype, value in seconds.items())


def _step_seconds(products: Sequence[Product], dtype: str, threads: int) -> float:
    """Returns the seconds of the products of one step, forward and backward, one after the other."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    return sum(count * _seconds(rows, inner, columns, dtype)
               for product in products for count, rows, inner, columns in product.with_gradients() if count)


def _seconds(rows: int, inner: int, columns: int, dtype: str, repeats: int = 5) -> float:
    """Returns the mean seconds of a product of two matrices in a loop: the median of ``repeats`` loops."""
    import tensorflow as tf

    first, second = (tf.cast(tf.random.stateless_normal(shape, [1, 2]), dtype)
                     for shape in ([rows, inner], [inner, columns]))

    @tf.function(autograph=False)
    def multiply(count: tf.Tensor) -> tf.Tensor:
        def body(number: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return number + 1, tf.matmul(first, second)[0, 0]

        return tf.while_loop(lambda number, _: number < count, body, (0, tf.zeros([], dtype)),
                             parallel_iterations=1)[1]

    def mean_seconds(count: int) -> float:
        return timed_pass(lambda: multiply(tf.constant(count)))() / count

    mean_seconds(1)
    # Loops of about 20 ms, of which the call of the function takes a small part.
    count = max(1, round(0.02 / mean_seconds(3)))
    return statistics.median(mean_seconds(count) for _ in range(repeats))
