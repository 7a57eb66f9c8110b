"""Finds the largest of many values in one pass over them."""

from __future__ import annotations

import math

import tensorflow as tf

_MIN_SIZE = 1024  # below this size, tf.math.top_k is as fast


def _block_size(size: int, k: int) -> int:
    """Returns the number of values in a block: about sqrt(size / k), and a divisor of ``size`` if one is close."""
    ideal = math.sqrt(size / k)
    near = [s for s in range(max(2, int(ideal / 2)), int(ideal * 3) + 1) if size % s == 0]
    return min(near, key=lambda s: abs(math.log(s / ideal)), default=round(ideal))


def top_k(values: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes ``tf.math.top_k``, several times faster on a CPU when k is small.

    The k largest values lie in the k blocks with the largest maxima (on ties, the first blocks), so one cheap pass
    finds these blocks, and only they are searched.

    Args:
      values: floating-point ``[batch, beam, size]``, the last dimension static.
      k: number of values to return, at most ``size``.

    Returns:
      (values, int32 indices) ``[batch, beam, k]``, largest first, equal values in order of their indices.
    """
    size = values.shape[-1]
    block = _block_size(size, k)
    if size < _MIN_SIZE or k * block * 4 > size:
        return tuple(tf.math.top_k(values, k))
    if size % block:
        values = tf.pad(values, [[0, 0], [0, 0], [0, -size % block]], constant_values=-math.inf)
        size = values.shape[-1]
    batch, beam = tf.shape(values)[0], tf.shape(values)[1]
    blocks = tf.reshape(values, tf.stack([batch, beam, size // block, block]))
    chosen = tf.math.top_k(tf.reduce_max(blocks, 3), k).indices
    chosen = -tf.math.top_k(-chosen, k).values  # sorted, so that equal values stay in order
    candidates = tf.reshape(tf.gather(blocks, chosen, batch_dims=2), tf.stack([batch, beam, k * block]))
    best, index = tf.math.top_k(candidates, k)
    return best, tf.gather(chosen, index // block, batch_dims=2) * block + index % block
