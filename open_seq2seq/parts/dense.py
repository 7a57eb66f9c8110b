"""Products, biases and activations of dense layers; gradients of biases are summed in FP32."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.dropout import keep_mask_of


def times_matrix(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """Multiplies ``[…, rows]`` by ``[rows, columns]`` as one product of two matrices; returns ``[…, columns]``."""
    product = tf.matmul(tf.reshape(x, [-1, matrix.shape[0]]), matrix)
    return tf.reshape(product, tf.concat([tf.shape(x)[:-1], [matrix.shape[1]]], 0))


def scaled_weight(variable: tf.Variable, scale: float, dtype: tf.DType) -> tf.Tensor:
    """Returns ``scale · variable``, multiplied in FP32 and cast to ``dtype``.

    Callers apply the scales of dropout and attention to weight matrices, because these are much smaller than
    activations.
    """
    return tf.cast(variable * scale if scale != 1.0 else tf.convert_to_tensor(variable), dtype)


def sum_over_rows(x: tf.Tensor, rows: tf.Tensor | None = None) -> tf.Tensor:
    """Sums ``[rows, columns]`` over rows; returns ``[columns]`` in FP32.

    A matrix product with ones is the fastest sum over rows, and matrix products accumulate in FP32. Sums of tensors
    with the same ``rows``, an int32 scalar, share these ones.
    """
    if x.dtype == tf.float16:  # the FP16 result of a product could overflow
        x = tf.cast(x, tf.float32)
    ones = tf.ones([1, tf.shape(x)[0] if rows is None else rows], x.dtype)
    return tf.cast(tf.reshape(tf.matmul(ones, x), [-1]), tf.float32)


@tf.custom_gradient
def add_bias(x: tf.Tensor, bias: tf.Tensor) -> Any:
    """Adds an FP32 bias ``[columns]`` to ``x`` ``[rows, columns]``; the gradient of the bias is FP32."""

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return dy, sum_over_rows(dy)

    return x + tf.cast(bias, x.dtype), grad


@tf.custom_gradient
def _bias_relu_mask(x: tf.Tensor, bias: tf.Tensor, keep: tf.Tensor) -> Any:
    active = tf.nn.relu(x + tf.cast(bias, x.dtype))
    y = tf.where(keep, active, tf.zeros([], x.dtype))

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, None]:
        # An element of y is positive if and only if it was active and kept.
        dx = tf.raw_ops.ReluGrad(gradients=dy, features=y)
        return dx, sum_over_rows(dx), None

    return y, grad


@tf.custom_gradient
def _bias_relu(x: tf.Tensor, bias: tf.Tensor) -> Any:
    y = tf.nn.relu(x + tf.cast(bias, x.dtype))

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        dx = tf.raw_ops.ReluGrad(gradients=dy, features=y)
        return dx, sum_over_rows(dx)

    return y, grad


def bias_relu_dropped(x: tf.Tensor, bias: tf.Tensor, rate: float, training: bool) -> tf.Tensor:
    """Returns ``mask · relu(x + bias)`` with a dropout mask, but without the scale of dropout.

    The caller multiplies a weight matrix by the scale, as in ``dropout.add_dropped``.

    Args:
      x: ``[rows, columns]`` in the compute dtype.
      bias: ``[columns]`` FP32.
      rate: fraction of the elements to drop.
      training: whether to apply dropout.
    """
    if not training or rate == 0.0:
        return _bias_relu(x, bias)
    return _bias_relu_mask(x, bias, keep_mask_of(x, rate))
