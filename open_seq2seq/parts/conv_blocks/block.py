"""A block of normalised convolutional layers with an optional residual connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.activations import Activation, activate_kept
from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.convolution import Window, make_convolution
from open_seq2seq.parts.dropout import keep_mask_of, keep_scale
from open_seq2seq.parts.randomness import next_seed
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


class BlockSettings(NamedTuple):
    """Settings that all blocks of an encoder share.

    Attributes:
      activation: activation after each layer, or None.
      normalization: one of ``NORMALIZATIONS``.
      momentum: fraction of batch norm's old moving statistics that is kept at each step.
      epsilon: number that the normalisation adds to the variance.
      initializer: initialiser of kernels.
      regularizer: regulariser of batch norm's scale and of all kernels except those of residual projections.
      mask_padding: whether to set padding to zero after each layer and to exclude it from statistics.
    """

    activation: Activation | None
    normalization: str | None = "batch_norm"
    momentum: float = 0.9
    epsilon: float = 1e-3
    initializer: Any = None
    regularizer: Any = None
    mask_padding: bool = True


class BlockShape(NamedTuple):
    """Shape of the layers of a block.

    Attributes:
      kind: kind of convolution, one of ``convolution.KINDS``.
      repeat: number of layers.
      windows: window over time and, for ``conv2d``, window over frequency.
      channels: number of output channels.
      dropout: dropout rate after each layer.
    """

    kind: str
    repeat: int
    windows: Sequence[Window]
    channels: int
    dropout: float


class ConvLayer(Module):
    """Convolution and normalisation.

    Args:
      kind: kind of convolution, one of ``convolution.KINDS``.
      in_channels: number of input channels.
      channels: number of output channels.
      windows: window over time and, for ``conv2d``, window over frequency.
      settings: settings of the normalisation, including its regulariser, and of the initialiser.
      regularizer: regulariser of the kernels.
    """

    def __init__(self, kind: str, in_channels: int, channels: int, windows: Sequence[Window],
                 settings: BlockSettings, regularizer: Any) -> None:
        super().__init__(name="conv_layer")
        self.window = windows[0]
        self.convolution = make_convolution(kind, in_channels, channels, windows, settings.initializer, regularizer)
        self.norm = make_normalization(settings.normalization, channels, settings.momentum, settings.epsilon,
                                       settings.regularizer)

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        """Returns the normalised convolution, ``[batch, time', …, channels]``.

        Args:
          x: ``[batch, time, …, in_channels]`` in the compute dtype.
          mask: boolean ``[batch, time']``, False at the padding of the result; None to treat no position as padding.
          training: whether to normalise by batch statistics.
        """
        y = self.convolution(x)
        return y if self.norm is None else self.norm(y, _like_rows(mask, y), training)


class ConvBlock(Module):
    """Layers of convolution, normalisation, activation and dropout, with an optional residual connection.

    Each residual input has its own projection and normalisation, and is added before the last activation (Li et al.
    2019, Jasper, https://arxiv.org/abs/1904.03288).

    Args:
      in_channels: number of input channels.
      shape: shape of the layers.
      settings: settings that all blocks share.
      residual_channels: number of channels of each residual input; empty for a block without residual connection.
    """

    def __init__(self, in_channels: int, shape: BlockShape, settings: BlockSettings,
                 residual_channels: Sequence[int] = ()) -> None:
        super().__init__(name="conv_block")
        self._settings = (shape.dropout, settings.activation, settings.mask_padding)
        self.layers = [
            ConvLayer(shape.kind, in_channels if number == 0 else shape.channels, shape.channels, shape.windows,
                      settings, settings.regularizer) for number in range(shape.repeat)]
        kind, windows = ("conv2d", [Window(1)] * 2) if shape.kind == "conv2d" else ("conv1d", [Window(1)])
        self.residuals = [ConvLayer(kind, channels, shape.channels, windows, settings, None)
                          for channels in residual_channels]

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, residuals: Sequence[tf.Tensor] = (), training: bool = False,
                 drop: float = 0.0) -> tuple[tf.Tensor, tf.Tensor]:
        """Applies the block to a padded batch.

        Args:
          x: ``[batch, time, …, channels]`` in the compute dtype; with ``mask_padding``, zero at padding.
          lengths: numbers of frames ``[batch]`` int32.
          residuals: the residual inputs ``[batch, time', …]``, with as many frames as the output.
          training: whether to apply dropout and normalise by batch statistics.
          drop: probability with which only the residual inputs are used and the block's own layers are dropped
            (stochastic depth, Huang et al. 2016, https://arxiv.org/abs/1603.09382); applied also outside of training.

        Returns:
          (outputs ``[batch, time', …, channels]``, their lengths ``[batch]``); with ``mask_padding``, the outputs are
          zero at padding.
        """
        for layer in self.layers:
            lengths = layer.window.outputs(lengths)
            mask = tf.sequence_mask(lengths, layer.window.outputs(tf.shape(x)[1])) if self._settings[2] else None
            if drop >= 1.0 and layer is self.layers[-1]:
                y = self._residual_sum(residuals, mask, training)
            else:
                y = layer(x, mask, training)
                if layer is self.layers[-1] and residuals:
                    y = _joined(y, self._residual_sum(residuals, mask, training), drop)
            x = self._activated(y, mask, training)
        return x, lengths

    def _residual_sum(self, residuals: Sequence[tf.Tensor], mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        total = None
        for layer, residual in zip(self.residuals, residuals, strict=True):
            y = layer(residual, mask, training)
            total = y if total is None else total + y
        return total

    def _activated(self, y: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        rate, activation, _ = self._settings
        dropped = training and rate > 0.0
        if not dropped and mask is None:
            return y if activation is None else activation(y)
        keep = keep_mask_of(y, rate) if dropped else None
        if mask is not None:
            rows = tf.reshape(mask, tf.concat([tf.shape(mask), [1] * (y.shape.rank - 2)], 0))
            keep = rows if keep is None else keep & rows
        return activate_kept(y, activation, keep, keep_scale(rate, dropped))


def _like_rows(mask: tf.Tensor | None, y: tf.Tensor) -> tf.Tensor | None:
    """Broadcasts a mask ``[batch, time]`` to ``[batch, time, frequency]`` if ``y`` has a frequency axis."""
    if mask is None or y.shape.rank == 3:
        return mask
    return tf.broadcast_to(mask[:, :, tf.newaxis], tf.shape(y)[:3])


def _joined(y: tf.Tensor, residual: tf.Tensor, drop: float) -> tf.Tensor:
    if drop == 0.0:
        return y + residual
    keep = tf.random.stateless_uniform([], next_seed(), alg="philox") >= drop
    return tf.where(keep, y, tf.zeros([], y.dtype)) + residual
