"""Blocks of ConvNeXt (Liu et al. 2022, https://arxiv.org/abs/2201.03545) over time."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.primitives import convolve_channels
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.tacotron import Dense
from open_seq2seq.parts.transformer.normalization import LayerNorm


class ConvNextBlock(Module):
    """A residual block: a convolution of each channel over time, layer norm, and two dense layers around a GELU.

    Args:
      channels: number of channels.
      inner: number of channels between the dense layers.
      taps: number of taps of the convolution.
      scale: initial value of the learned factors of what the block adds to each channel.
      initializer: initialiser of the kernels.
      regularizer: regulariser of the kernels.
    """

    def __init__(self, channels: int, inner: int, taps: int, scale: float, initializer: Any = None,
                 regularizer: Any = None) -> None:
        super().__init__(name="convnext_block")
        self.depthwise = self.weight([taps, channels, 1], initializer, regularizer=regularizer)
        self.norm = LayerNorm(channels)
        self.expansion = Dense(channels, inner, initializer, regularizer)
        self.contraction = Dense(inner, channels, initializer, regularizer)
        self.scale = self.weight([channels], tf.keras.initializers.Constant(scale))

    def __call__(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns ``[batch, time, channels]`` in the dtype of ``x``; ``mask`` is 0 in padding ``[batch, time, 1]``."""
        y = convolve_channels(x * mask, cast_weight(self.depthwise, x.dtype), 1, "SAME")
        y = tf.nn.gelu(self.expansion(self.norm(y)), approximate=True)
        return x + self.contraction(y) * tf.cast(self.scale, x.dtype)
