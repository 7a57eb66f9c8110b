"""Operations on batches of sequences of different lengths."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def concatenated_in_time(parts: Sequence[tf.Tensor], lengths: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Concatenates sequences row by row, without the padding between them.

    Args:
      parts: tensors ``[batch, time_i, channels]``, which may have different numbers of time steps.
      lengths: for each tensor, the numbers of valid steps ``[batch]``.

    Returns:
      (``[batch, time, channels]``, zeros at padding; the sums of the lengths ``[batch]``).
    """
    lengths = [tf.cast(one, tf.int32) for one in lengths]
    total = tf.add_n(lengths)
    steps = tf.range(tf.reduce_max(tf.concat([total, [0]], 0)))[tf.newaxis]
    # For each step of the result, its index in the concatenation of the parts with their padding.
    places, end, start = tf.zeros_like(steps + total[:, tf.newaxis]), tf.zeros_like(total), 0
    for part, length in zip(parts, lengths, strict=True):
        inside = (steps >= end[:, tf.newaxis]) & (steps < (end + length)[:, tf.newaxis])
        places = tf.where(inside, steps - end[:, tf.newaxis] + start, places)
        end, start = end + length, start + tf.shape(part)[1]
    gathered = tf.gather(tf.concat(parts, 1), places, batch_dims=1)
    held = steps < total[:, tf.newaxis]
    return tf.where(held[:, :, tf.newaxis], gathered, tf.zeros([], gathered.dtype)), total
