"""Selects the rows that must be computed, and scatters the results.

The selected rows are distinct, so the gradient writes each row once and sums nothing in half precision.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# The number of selected rows is a multiple of this; see ``rows_to_compute``.
_MULTIPLE = 64


def rows_to_compute(mask: tf.Tensor) -> tf.Tensor:
    """Returns the distinct indices, int32 ``[selected]``, of the rows where ``mask`` is True and of a few other rows.

    The CPU's matrix library compiles and caches kernels for each new number of rows, which takes some MB of memory.
    Therefore other rows are added until the number is a multiple of 64 or no rows are left.

    Args:
      mask: boolean ``[rows]``.
    """
    valid, others = tf.where(mask)[:, 0], tf.where(tf.logical_not(mask))[:, 0]
    return tf.cast(tf.concat([valid, others[:-tf.size(valid) % _MULTIPLE]], 0), tf.int32)


@tf.custom_gradient
def gather_rows(x: tf.Tensor, rows: tf.Tensor) -> Any:
    """Returns ``x[rows]``, ``[selected, columns]``.

    Args:
      x: ``[rows, columns]``.
      rows: indices ``[selected]`` int32; must be distinct, so that the gradient can be a scatter.
    """
    shape = tf.shape(x)

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None]:
        return tf.scatter_nd(rows[:, None], dy, shape), None

    return tf.gather(x, rows), grad


@tf.custom_gradient
def scatter_rows(x: tf.Tensor, rows: tf.Tensor, count: tf.Tensor) -> Any:
    """Returns ``[count, columns]`` with the rows of ``x`` at the indices ``rows`` and zeros elsewhere.

    Args:
      x: ``[selected, columns]``.
      rows: distinct indices ``[selected]`` int32.
      count: number of rows of the result.
    """

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None, None]:
        return tf.gather(dy, rows), None, None

    return tf.scatter_nd(rows[:, None], x, tf.stack([count, tf.shape(x)[1]])), grad
