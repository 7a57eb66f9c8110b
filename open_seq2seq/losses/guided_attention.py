"""A penalty on attention that is far from the diagonal, for speech synthesis."""

from __future__ import annotations

import tensorflow as tf


def guided_attention(alignments: tf.Tensor, steps: tf.Tensor, symbols: tf.Tensor, sigma: float) -> tf.Tensor:
    """Returns the attention of each example that is far from the diagonal, summed over its steps ``[batch]``.

    Step t of T and symbol n of N have the weight ``1 - exp(-(n / N - t / T)² / (2 sigma²))``, with the example's own
    numbers of steps and symbols (Tachibana et al. 2017, https://arxiv.org/abs/1710.08969, section 3.3).

    Args:
      alignments: attention weights ``[batch, steps, symbols]``.
      steps: number of steps of each example ``[batch]``.
      symbols: number of symbols of each example ``[batch]``.
      sigma: width of the diagonal, as a share of the text.
    """
    weights = tf.cast(alignments, tf.float32)
    shape = tf.shape(weights)
    t, n = (tf.cast(tf.range(size), tf.float32) for size in (shape[1], shape[2]))
    time = t / tf.cast(tf.maximum(steps, 1), tf.float32)[:, tf.newaxis]
    place = n / tf.cast(tf.maximum(symbols, 1), tf.float32)[:, tf.newaxis]
    far = 1.0 - tf.exp(-(place[:, tf.newaxis] - time[:, :, tf.newaxis]) ** 2 / (2.0 * sigma ** 2))
    inside = tf.sequence_mask(steps, shape[1], tf.float32)[:, :, tf.newaxis] \
        * tf.sequence_mask(symbols, shape[2], tf.float32)[:, tf.newaxis]
    return tf.reduce_sum(weights * far * inside, [1, 2])
