"""Position signals and attention biases."""

from __future__ import annotations

import math

import tensorflow as tf

MASKED = -1e9
"""Bias for positions that must not be attended to; its exp is exactly 0 in FP32."""


def position_signal(positions: tf.Tensor, hidden_size: int, max_timescale: float = 1e4) -> tf.Tensor:
    """Returns sinusoids with geometrically spaced wavelengths (Vaswani et al. 2017, §3.5).

    Sines fill the first half of the channels and cosines the second, as in Tensor2Tensor; the paper interleaves them.
    If the number of channels is odd, the last channel is 0.

    Args:
      positions: integers ``[time]``; the first position is 0.
      hidden_size: number of channels.
      max_timescale: longest wavelength divided by 2π.

    Returns:
      ``[time, hidden]`` FP32.
    """
    timescales = hidden_size // 2
    increment = math.log(max_timescale) / max(timescales - 1, 1)
    rates = tf.exp(tf.range(timescales, dtype=tf.float32) * -increment)
    angles = tf.cast(positions, tf.float32)[:, None] * rates[None, :]
    signal = tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)
    return tf.pad(signal, [[0, 0], [0, hidden_size % 2]])


def padding_bias(mask: tf.Tensor) -> tf.Tensor:
    """Returns the attention bias, ``[batch, 1, 1, time]`` FP32, for a boolean mask ``[batch, time]``."""
    return tf.where(mask, 0.0, MASKED)[:, None, None, :]


def causal_bias(length: tf.Tensor) -> tf.Tensor:
    """Returns the attention bias, ``[1, 1, length, length]`` FP32, that hides later positions."""
    steps = tf.range(length)
    return tf.where(steps[None, :] <= steps[:, None], 0.0, MASKED)[None, None]
