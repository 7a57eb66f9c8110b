"""Selection of the rows that have to be computed, and scattering of their results.

Selected rows are distinct, so gradients are plain scatters, without sums in half precision.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_MULTIPLE = 64


def rows_to_compute(mask: tf.Tensor) -> tf.Tensor:
    """Returns the numbers of the rows where ``mask`` holds, and of a few others, int32 ``[selected]``, all distinct.

    The CPU's matrix library compiles kernels for each new number of rows, and keeps them, which takes some MB. So
    numbers of rows are rounded up to multiples of 64 if there are enough rows.

    Args:
      mask: boolean ``[rows]``.
    """
    held, others = tf.where(mask)[:, 0], tf.where(tf.logical_not(mask))[:, 0]
    return tf.cast(tf.concat([held, others[:-tf.size(held) % _MULTIPLE]], 0), tf.int32)


@tf.custom_gradient
def gather_rows(x: tf.Tensor, rows: tf.Tensor) -> Any:
    """Returns ``x[rows]`` ``[selected, columns]`` of distinct rows, so that the gradient is a plain scatter."""
    shape = tf.shape(x)

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None]:
        return tf.scatter_nd(rows[:, None], dy, shape), None

    return tf.gather(x, rows), grad


@tf.custom_gradient
def scatter_rows(x: tf.Tensor, rows: tf.Tensor, count: tf.Tensor) -> Any:
    """Returns ``[count, columns]`` with ``x`` ``[selected, columns]`` in the given rows and zeros elsewhere."""

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None, None]:
        return tf.gather(dy, rows), None, None

    return tf.scatter_nd(rows[:, None], x, tf.stack([count, tf.shape(x)[1]])), grad
