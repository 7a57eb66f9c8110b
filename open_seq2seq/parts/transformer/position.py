"""Position signals and attention biases."""

from __future__ import annotations

import math

import tensorflow as tf

MASKED = -1e9
"""Bias for positions that must not be attended to; its exp is exactly 0 in FP32."""
_MAX_TIMESCALE = 1e4  # longest wavelength divided by 2π


def position_signal(positions: tf.Tensor, hidden_size: int) -> tf.Tensor:
    """Returns sinusoids with geometrically spaced wavelengths (Vaswani et al. 2017, §3.5).

    Sines fill the first half of the channels and cosines the second, as in Tensor2Tensor; the paper interleaves them.
    If the number of channels is odd, the last channel is 0.

    Args:
      positions: integers ``[time]``; the first position is 0.
      hidden_size: number of channels.

    Returns:
      ``[time, hidden]`` FP32.
    """
    timescales = hidden_size // 2
    increment = math.log(_MAX_TIMESCALE) / max(timescales - 1, 1)
    rates = tf.exp(tf.range(timescales, dtype=tf.float32) * -increment)
    angles = tf.cast(positions, tf.float32)[:, None] * rates[None, :]
    signal = tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)
    return tf.pad(signal, [[0, 0], [0, hidden_size % 2]])


def alibi_slopes(num_heads: int) -> list[float]:
    """Returns each head's slope of attention with linear biases (Press et al. 2022, https://arxiv.org/abs/2108.12409).

    If the number of heads is a power of 2, the slopes are 2^(-8 / heads), 2^(-16 / heads), …, 2^-8. Otherwise, the
    slopes for the next smaller power of 2 are followed by every other slope for twice that power.
    """
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (head + 1) / power) for head in range(power)]
    between = [2.0 ** (-4.0 * (head + 1) / power) for head in range(0, 2 * power, 2)]
    return slopes + between[:num_heads - power]


def distance_bias(num_heads: int, queries: tf.Tensor, keys: tf.Tensor, window: int | None = None) -> tf.Tensor:
    """Returns linear attention biases: minus the head's slope times the distance from query to key.

    See ``alibi_slopes``. Keys that are later than the query, or more than ``window`` positions earlier, are masked.

    Args:
      num_heads: number of attention heads.
      queries: positions of the queries, ``[query time]`` int32.
      keys: positions of the keys, ``[time]`` int32.
      window: greatest distance that is not masked; None for no limit.

    Returns:
      ``[1, heads, query time, time]`` FP32.
    """
    distance = queries[:, tf.newaxis] - keys
    mask = distance >= 0 if window is None else (distance >= 0) & (distance <= window)
    slopes = tf.constant(alibi_slopes(num_heads))[:, tf.newaxis, tf.newaxis]
    return tf.where(mask, -slopes * tf.cast(distance, tf.float32), MASKED)[tf.newaxis]


def padding_bias(mask: tf.Tensor) -> tf.Tensor:
    """Returns the FP32 bias ``[batch, 1, 1, time]`` that masks keys where ``mask`` ``[batch, time]`` is False."""
    return tf.where(mask, 0.0, MASKED)[:, None, None, :]


def causal_bias(length: tf.Tensor) -> tf.Tensor:
    """Returns the attention bias, ``[1, 1, length, length]`` FP32, that masks later positions."""
    steps = tf.range(length)
    return tf.where(steps[None, :] <= steps[:, None], 0.0, MASKED)[None, None]
