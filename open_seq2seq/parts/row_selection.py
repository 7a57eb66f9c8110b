"""Picking rows that are worth computing, and putting them back.

Rows differ, so gradients are plain scatters: nothing is added up in half precision.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_MULTIPLE = 64


def rows_to_compute(mask: tf.Tensor) -> tf.Tensor:
    """Returns the rows where ``mask`` holds, and a few of the others.

    Every row count that the CPU's matrix library has not met costs it the making of new
    kernels, which it keeps: some MB a count. Counts are therefore rounded up to multiples
    of 64, as far as there are rows.

    Args:
      mask: boolean ``[rows]``.

    Returns:
      int32, all different.
    """
    held, others = tf.where(mask)[:, 0], tf.where(tf.logical_not(mask))[:, 0]
    return tf.cast(tf.concat([held, others[:-tf.size(held) % _MULTIPLE]], 0), tf.int32)


@tf.custom_gradient
def gather_rows(x: tf.Tensor, rows: tf.Tensor) -> Any:
    """Returns ``x[rows]`` of rows that differ, so that the gradient is a plain scatter."""
    shape = tf.shape(x)

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None]:
        return tf.scatter_nd(rows[:, None], dy, shape), None

    return tf.gather(x, rows), grad


@tf.custom_gradient
def scatter_rows(x: tf.Tensor, rows: tf.Tensor, count: tf.Tensor) -> Any:
    """Returns ``[count, columns]`` with ``x`` in the given rows and zeros elsewhere."""

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None, None]:
        return tf.gather(dy, rows), None, None

    return tf.scatter_nd(rows[:, None], x, tf.stack([count, tf.shape(x)[1]])), grad
