"""Pooling over time: sequences become single vectors, which do not depend on padding."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

POOLINGS = ("mean", "sqrtn", "max", "first", "last")


def pooled(x: tf.Tensor, lengths: tf.Tensor, poolings: Sequence[str]) -> tf.Tensor:
    """Pools sequences over time.

    Args:
      x: ``[batch, time, channels]``.
      lengths: numbers of valid positions ``[batch]``; a sequence of length 0 is pooled to zeros.
      poolings: ``mean`` or ``max`` over the valid positions, their sum divided by the square root of their number
        (``sqrtn``), or the ``first`` or ``last`` of them.

    Returns:
      FP32 ``[batch, len(poolings) · channels]``, the concatenated results of the poolings.
    """
    x, lengths = tf.cast(x, tf.float32), tf.cast(lengths, tf.int32)
    mask = tf.sequence_mask(lengths, tf.shape(x)[1])[:, :, tf.newaxis]
    valid = tf.where(mask, x, 0.0)
    return tf.concat([_one(name, x, valid, mask, lengths) for name in poolings], axis=1)


def _one(name: str, x: tf.Tensor, valid: tf.Tensor, mask: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    some = lengths[:, tf.newaxis] > 0
    if name in ("mean", "sqrtn"):
        count = tf.cast(tf.maximum(lengths, 1), tf.float32)[:, tf.newaxis]
        return tf.reduce_sum(valid, axis=1) / (count if name == "mean" else tf.sqrt(count))
    if name == "max":
        return tf.where(some, tf.reduce_max(tf.where(mask, x, tf.float32.min), axis=1), 0.0)
    indices = tf.zeros_like(lengths) if name == "first" else tf.maximum(lengths - 1, 0)
    chosen = tf.one_hot(indices, tf.shape(x)[1])[:, :, tf.newaxis]
    return tf.reduce_sum(valid * chosen, axis=1)
