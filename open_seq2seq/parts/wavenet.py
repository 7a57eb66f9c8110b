"""Layers of WaveNet (van den Oord et al. 2016, https://arxiv.org/abs/1609.03499), for clips and for one sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.convolution import Convolution1D, Window
from open_seq2seq.parts.precision import cast_weight


def mu_law_ids(audio: tf.Tensor, levels: int) -> tf.Tensor:
    """Quantises audio, from -1 to 1, by the mu-law (ITU-T G.711): int32 from 0 to ``levels`` - 1, in the same shape."""
    mu = levels - 1.0
    audio = tf.clip_by_value(tf.cast(audio, tf.float32), -1.0, 1.0)
    compressed = tf.sign(audio) * tf.math.log1p(mu * tf.abs(audio)) / np.log1p(mu)
    return tf.cast((compressed + 1.0) / 2.0 * mu + 0.5, tf.int32)


def mu_law_audio(ids: tf.Tensor, levels: int) -> tf.Tensor:
    """Returns the audio of quantised samples, float32 from -1 to 1; see ``mu_law_ids``."""
    mu = levels - 1.0
    compressed = 2.0 * tf.cast(ids, tf.float32) / mu - 1.0
    return tf.sign(compressed) * tf.math.expm1(tf.abs(compressed) * np.log1p(mu)) / mu


class LayerSettings(NamedTuple):
    """What the layers of a network have in common.

    Attributes:
      filters: number of channels.
      taps: number of taps of the dilated convolutions.
      momentum, epsilon: those of batch norm.
      initializer, regularizer: those of the kernels.
    """

    filters: int
    taps: int
    momentum: float
    epsilon: float
    initializer: Any
    regularizer: Any


class CausalConvolution(Module):
    """A convolution of the inputs up to each position, with batch norm.

    The first outputs, whose inputs would begin before the clip, are zeros, and do not count in the statistics.

    Args:
      in_channels: number of channels of the inputs or, of integers, number of their values.
      dilation: step between consecutive taps.
      settings: the settings of the network.

    Attributes:
      reach: number of earlier inputs that an output depends on.
    """

    def __init__(self, in_channels: int, dilation: int, settings: LayerSettings) -> None:
        super().__init__(name="causal_convolution")
        window = Window(settings.taps, 1, dilation, "CAUSAL")
        self.convolution = Convolution1D(in_channels, settings.filters, window, settings.initializer,
                                         settings.regularizer)
        self.norm = BatchNorm(settings.filters, settings.momentum, settings.epsilon)
        self.reach = window.span - 1

    def __call__(self, x: tf.Tensor, mask: tf.Tensor, training: bool, dtype: tf.DType) -> tf.Tensor:
        """Returns ``[batch, time, filters]``.

        Args:
          x: ``[batch, time, in_channels]``, or integers ``[batch, time]``, which are convolved as one-hot vectors.
          mask: which positions belong to clips ``[batch, time]``.
          training: whether to use the statistics of the batch.
          dtype: dtype of the result.
        """
        complete = tf.range(tf.shape(x)[1]) >= self.reach
        y = self._of_ids(x, dtype) if x.dtype.is_integer else self.convolution(x)
        y = self.norm(y, mask & complete, training)
        return tf.where(complete[:, tf.newaxis], y, tf.zeros([], y.dtype))

    def _of_ids(self, ids: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        kernel, taps = cast_weight(self.convolution.kernel, dtype), self.convolution.window.size
        padded = tf.pad(ids, [[0, 0], [self.reach, 0]])
        return tf.add_n([tf.gather(kernel[tap], padded[:, tap:tf.shape(ids)[1] + tap]) for tap in range(taps)])

    def folded(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the kernel ``[taps, in_channels, filters]`` and the offset, with batch norm by moving statistics."""
        factor = tf.math.rsqrt(self.norm.moving_variance + self.norm.epsilon) * self.norm.gamma
        return self.convolution.kernel * factor, self.norm.beta - self.norm.moving_mean * factor


class GatedLayer(Module):
    """A layer with a dilated convolution each for the filter and the gate, which read one half of the channels each.

    Args:
      dilation: step between consecutive taps of the convolutions.
      settings: the settings of the network.
    """

    def __init__(self, dilation: int, settings: LayerSettings) -> None:
        super().__init__(name="gated_layer")
        size = settings.filters
        self.filter = CausalConvolution(size // 2, dilation, settings)
        self.gate = CausalConvolution(size // 2, dilation, settings)
        self.residual = pointwise(size, size, settings)
        self.skip = pointwise(size, size, settings)

    def __call__(self, x: tf.Tensor, condition: list[tf.Tensor], mask: tf.Tensor,
                 training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the inputs of the next layer, and what the layer adds to the output: ``[batch, time, filters]`` each.

        Args:
          x: ``[batch, time, filters]``.
          condition: what is added to the filter and to the gate, in the shape of ``x`` each; may be empty.
          mask: which positions belong to clips ``[batch, time]``.
          training: whether to use the statistics of the batch.
        """
        halves = tf.split(x, 2, -1)
        sides = [layer(half, mask, training, x.dtype)
                 for layer, half in zip((self.filter, self.gate), halves, strict=True)]
        return self._gated(x, sides, condition)

    def step(self, taps: tf.Tensor, sides: list[tuple[tf.Tensor, tf.Tensor]],
             condition: list[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns what ``__call__`` returns, at one position ``[batch, filters]``.

        Args:
          taps: the inputs that the convolutions read, the newest last ``[taps, batch, filters]``.
          sides: the folded convolutions of the filter and the gate; see ``CausalConvolution.folded``.
          condition: as in ``__call__``, ``[batch, filters]`` each.
        """
        halves = tf.split(taps, 2, -1)
        outputs = [tf.einsum("kbi,kio->bo", half, kernel) + offset
                   for half, (kernel, offset) in zip(halves, sides, strict=True)]
        return self._gated(taps[-1], outputs, condition)

    def _gated(self, x: tf.Tensor, sides: list[tf.Tensor],
               condition: list[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        if condition:
            sides = [side + one for side, one in zip(sides, condition, strict=True)]
        gated = tf.tanh(sides[0]) * tf.sigmoid(sides[1])
        return x + self.residual(gated), self.skip(gated)


def pointwise(in_channels: int, out_channels: int, settings: LayerSettings) -> Convolution1D:
    """Creates a convolution with one tap and without bias, which is a product with a matrix."""
    return Convolution1D(in_channels, out_channels, Window(1), settings.initializer, settings.regularizer)
