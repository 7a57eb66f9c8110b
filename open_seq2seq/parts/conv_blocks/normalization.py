"""Normalisation layers for convolutional encoders."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.transformer.normalization import LayerNorm

NORMALIZATIONS = ["batch_norm", "layer_norm", "instance_norm", None]


class InstanceNorm(Module):
    """Normalises each channel over the valid positions of each utterance, in and outside of training.

    See Ulyanov et al. 2016, https://arxiv.org/abs/1607.08022.

    Args:
      channels: number of channels.
      epsilon: number added to the variance.
    """

    def __init__(self, channels: int, epsilon: float) -> None:
        super().__init__(name="instance_norm")
        self.epsilon = epsilon
        self.gamma = self.weight([channels], "ones")
        self.beta = self.weight([channels], "zeros")

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None = None, training: bool = False) -> tf.Tensor:
        """Normalises ``[batch, time, …, channels]``; ``mask`` ``[batch, time, …]`` is False at padding."""
        axes = list(range(1, x.shape.rank - 1))
        wide = tf.cast(x, tf.float32)
        valid = tf.ones_like(wide[..., :1]) if mask is None else tf.cast(mask, tf.float32)[..., tf.newaxis]
        count = tf.maximum(tf.reduce_sum(valid, axes, keepdims=True), 1.0)
        centered = wide - tf.reduce_sum(wide * valid, axes, keepdims=True) / count
        variance = tf.reduce_sum(tf.square(centered) * valid, axes, keepdims=True) / count
        return tf.cast(centered * (tf.math.rsqrt(variance + self.epsilon) * self.gamma) + self.beta, x.dtype)


def make_normalization(kind: str | None, channels: int, momentum: float, epsilon: float,
                       regularizer: Any = None) -> Module | None:
    """Creates a normalisation layer, or returns None for None.

    Args:
      kind: one of ``NORMALIZATIONS``; layer norm is over the channels of each position.
      channels: number of channels.
      momentum: fraction of batch norm's old moving statistics that is kept at each step.
      epsilon: number added to the variance.
      regularizer: regulariser of batch norm's scale.
    """
    if kind == "batch_norm":
        return BatchNorm(channels, momentum, epsilon, regularizer=regularizer)
    if kind == "layer_norm":
        return LayerNorm(channels, epsilon)
    return InstanceNorm(channels, epsilon) if kind == "instance_norm" else None
