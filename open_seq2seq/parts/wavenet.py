"""Layers of WaveNet (van den Oord et al. 2016, https://arxiv.org/abs/1609.03499), for clips and for one sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.convolution import Convolution1D, Window
from open_seq2seq.parts.precision import cast_weight


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


class FoldedLayer(NamedTuple):
    """A layer for one position: few operations, whose number takes more time than their arithmetic.

    Attributes:
      kernel: the convolutions of filter and gate ``[taps * filters, 2 * filters]``.
      offset: what is added to filter and gate ``[2 * filters]``.
      outputs: the products that follow them, for the next layer and for the output ``[filters, 2 * filters]``.
    """

    kernel: tf.Tensor
    offset: tf.Tensor
    outputs: tf.Tensor

    def __call__(self, taps: tf.Tensor, x: tf.Tensor, added: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns what ``GatedLayer`` returns, at one position ``[batch, filters]``.

        Args:
          taps: the inputs that the convolutions read, the newest last ``[batch, taps * filters]``.
          x: the newest of them ``[batch, filters]``.
          added: the offset and the condition ``[batch, 2 * filters]``.
        """
        first, second = tf.split(tf.matmul(taps, self.kernel) + added, 2, 1)
        residual, skip = tf.split(tf.matmul(tf.tanh(first) * tf.sigmoid(second), self.outputs), 2, 1)
        return x + residual, skip


def as_matrix(kernel: tf.Tensor) -> tf.Tensor:
    """Returns a kernel ``[taps, inputs, outputs]`` as ``[taps * inputs, outputs]``."""
    return tf.reshape(kernel, [-1, kernel.shape[2]])


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
        if condition:
            sides = [side + one for side, one in zip(sides, condition, strict=True)]
        gated = tf.tanh(sides[0]) * tf.sigmoid(sides[1])
        return x + self.residual(gated), self.skip(gated)

    def folded(self) -> FoldedLayer:
        """Returns the layer as two products with matrices, with batch norm by moving statistics."""
        (first, first_offset), (second, second_offset) = self.filter.folded(), self.gate.folded()
        kernel = tf.concat([tf.concat([first, tf.zeros_like(first)], 1), tf.concat([tf.zeros_like(second), second], 1)],
                           2)
        return FoldedLayer(as_matrix(kernel), tf.concat([first_offset, second_offset], 0),
                           tf.concat([self.residual.kernel[0], self.skip.kernel[0]], 1))


class Upsampling(Module):
    """Transposed convolutions over time, with a leaky ReLU between them (as in Parallel WaveNet and ClariNet).

    The taps of each are twice its stride, so that an output depends on the input at its place and the next one. It is
    computed as a product with the two inputs, whose result has ``stride`` outputs.

    Args:
      channels: number of channels of inputs and outputs.
      strides: stride of each layer.
      settings: the settings of the network.
    """

    def __init__(self, channels: int, strides: Sequence[int], settings: LayerSettings) -> None:
        super().__init__(name="upsampling")
        self._channels, self._strides = channels, strides
        self.layers = [Convolution1D(channels, stride * channels, Window(2, padding="VALID"), settings.initializer,
                                     settings.regularizer, use_bias=True) for stride in strides]

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns ``[batch, time * product of the strides, channels]``.

        Args:
          x: ``[batch, time, channels]``.
          lengths: number of valid inputs ``[batch]``; the last one is repeated after them.
        """
        batch, time = tf.shape(x)[0], tf.shape(x)[1]
        last = tf.maximum(tf.cast(lengths, tf.int32), 1)[:, tf.newaxis] - 1
        x = tf.gather(x, tf.minimum(tf.range(time + len(self.layers)), last), axis=1, batch_dims=1)
        for number, layer in enumerate(self.layers):
            x = layer(tf.nn.leaky_relu(x, 0.4) if number else x)
            x = tf.reshape(x, [batch, -1, self._channels])
        return x[:, :time * math.prod(self._strides)]


def pointwise(in_channels: int, out_channels: int, settings: LayerSettings) -> Convolution1D:
    """Creates a convolution with one tap and without bias, which is a product with a matrix."""
    return Convolution1D(in_channels, out_channels, Window(1), settings.initializer, settings.regularizer)
