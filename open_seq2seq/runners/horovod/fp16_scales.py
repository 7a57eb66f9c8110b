"""Computes the powers of two by which FP32 tensors are multiplied before they are sent and summed in FP16."""

from __future__ import annotations

import tensorflow as tf

# Number of fraction bits, and bias of the exponent, in FP32.
_FRACTION, _BIAS = 23, 127
# A bound times its scale is less than 2^_TOP. This is half of FP16's range, because each addition may round the sum up.
_TOP = 15


def peaks(tensors: list[tf.Tensor]) -> tf.Tensor:
    """Returns the largest absolute value of each tensor, or 0 if it is empty: FP32 ``[tensors]``."""
    return tf.stack([tf.maximum(tf.reduce_max(tf.abs(tensor)), 0.0) for tensor in tensors])


def wire_scales(bounds: tf.Tensor) -> tf.Tensor:
    """Returns, for each bound, the largest normal power of two whose product with the bound is below 2¹⁵.

    The scales are computed from the bits of the bounds' exponents. They are therefore exact powers of two, and
    divisions by them do not round.

    Args:
      bounds: FP32 of any shape, not negative.

    Returns:
      FP32 of the same shape; 1 where a bound is inf or NaN.
    """
    exponent = tf.bitwise.right_shift(tf.bitcast(bounds, tf.int32), _FRACTION)  # bound < 2^(exponent - _BIAS + 1)
    wanted = tf.clip_by_value(_TOP - 1 + 2 * _BIAS - exponent, 1, 2 * _BIAS)
    wanted = tf.where(tf.math.is_finite(bounds), wanted, _BIAS)
    return tf.bitcast(tf.bitwise.left_shift(wanted, _FRACTION), tf.float32)
