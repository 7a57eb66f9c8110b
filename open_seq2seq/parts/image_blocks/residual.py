"""Residual blocks of ResNet, versions 1, 1.5 and 2."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.image_blocks.convolution import ImageConvolution

VERSIONS = (1, 1.5, 2)
EXPANSION = 4
"""Number of output channels of a bottleneck block per filter."""


class NetSettings(NamedTuple):
    """Settings that all blocks of a network share.

    Attributes:
      momentum: fraction of batch norm's old moving statistics that is kept at each step.
      epsilon: number that batch norm adds to the variance.
      initializer: initialiser of kernels.
      regularizer: regulariser of kernels.
      norm_regularizer: regulariser of batch norm's scale.
    """

    momentum: float
    epsilon: float
    initializer: Any = None
    regularizer: Any = None
    norm_regularizer: Any = None

    def norm(self, channels: int) -> BatchNorm:
        """Creates a batch norm of this number of channels."""
        return BatchNorm(channels, self.momentum, self.epsilon, regularizer=self.norm_regularizer)

    def convolution(self, in_channels: int, out_channels: int, size: int, stride: int) -> ImageConvolution:
        """Creates a convolution without bias, whose padding does not depend on the size of the image."""
        return ImageConvolution(in_channels, out_channels, size, stride, "FIXED" if stride > 1 else "SAME",
                                self.initializer, self.regularizer)


def like_pixels(mask: tf.Tensor | None, x: tf.Tensor) -> tf.Tensor | None:
    """Broadcasts a mask of examples ``[batch]`` to the pixels ``[batch, height, width]`` of images ``x``."""
    return None if mask is None else tf.broadcast_to(mask[:, tf.newaxis, tf.newaxis], tf.shape(x)[:3])


class ResidualBlock(Module):
    """Two 3 × 3 convolutions, or a bottleneck of 1 × 1, 3 × 3 and 1 × 1, with a residual connection.

    Versions 1 and 1.5 normalise after each convolution (He et al. 2015, https://arxiv.org/abs/1512.03385). Version 2
    normalises and activates before each convolution (He et al. 2016, https://arxiv.org/abs/1603.05027). In a
    bottleneck, the stride belongs to the first 1 × 1 convolution in version 1, and to the 3 × 3 convolution in the
    other versions.

    Args:
      in_channels: number of input channels.
      filters: number of filters of the 3 × 3 convolutions.
      stride: stride of the block in pixels.
      version: one of ``VERSIONS``.
      bottleneck: whether the block is a bottleneck, with ``EXPANSION · filters`` output channels.
      projects: whether the residual connection is a 1 × 1 convolution instead of the identity.
      settings: settings of the network.
    """

    def __init__(self, in_channels: int, filters: int, stride: int, version: float, bottleneck: bool, projects: bool,
                 settings: NetSettings) -> None:
        super().__init__(name="residual_block")
        self.version = version
        first = version == 1
        layers = [(1, filters, stride if first else 1), (3, filters, 1 if first else stride),
                  (1, EXPANSION * filters, 1)] if bottleneck else [(3, filters, stride), (3, filters, 1)]
        sizes = [in_channels, *(channels for _, channels, _ in layers)]
        self.out_channels = sizes[-1]
        self.convolutions = [settings.convolution(before, channels, size, step)
                             for before, (size, channels, step) in zip(sizes, layers, strict=False)]
        self.norms = [settings.norm(channels) for channels in (sizes[:-1] if version == 2 else sizes[1:])]
        self.projection = settings.convolution(in_channels, self.out_channels, 1, stride) if projects else None
        self.projection_norm = settings.norm(self.out_channels) if projects and version != 2 else None

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        """Applies the block.

        Args:
          x: ``[batch, height, width, channels]`` in the compute dtype.
          mask: boolean ``[batch]``, False at rows to exclude from statistics, or None.
          training: whether to normalise by batch statistics.

        Returns:
          ``[batch, height', width', out_channels]``.
        """
        return self._pre_activated(x, mask, training) if self.version == 2 else self._post_activated(x, mask, training)

    def _post_activated(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        shortcut = y = x
        if self.projection is not None and self.projection_norm is not None:
            shortcut = self.projection(x)
            shortcut = self.projection_norm(shortcut, like_pixels(mask, shortcut), training)
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            y = convolution(tf.nn.relu(y) if number else y)
            y = norm(y, like_pixels(mask, y), training)
        return tf.nn.relu(y + shortcut)

    def _pre_activated(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        shortcut = y = x
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            y = tf.nn.relu(norm(y, like_pixels(mask, y), training))
            if number == 0 and self.projection is not None:
                shortcut = self.projection(y)
            y = convolution(y)
        return y + shortcut
