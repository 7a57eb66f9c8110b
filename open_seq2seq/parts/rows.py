"""Picking rows that are not padding, and putting them back.

Rows differ, so gradients are plain scatters: nothing is added up in half precision.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


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
