"""Convolution and pooling of images ``[batch, height, width, channels]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.convolution import convolve_on_device
from open_seq2seq.parts.dense import add_bias
from open_seq2seq.parts.precision import cast_weight

PADDINGS = ("SAME", "VALID", "FIXED")
"""Kinds of padding. SAME: the number of outputs is inputs / stride, rounded up. VALID: no padding. FIXED: the padding
that keeps the size of the image with a stride of 1, whatever the stride is."""


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """Returns (height, width) for a pair, or for a single number that is used for both."""
    height, width = (value, value) if isinstance(value, int) else value
    return int(height), int(width)


def outputs_of(size: int, window: int, stride: int, padding: str) -> int:
    """Returns the number of outputs along one axis with ``size`` inputs; ``padding`` is one of ``PADDINGS``."""
    if padding == "SAME":
        return -(-size // stride)
    padded = size + window - 1 if padding == "FIXED" else size
    return max(0, (padded - window) // stride + 1)


class ImageConvolution(Module):
    """Convolution of images.

    Args:
      in_channels: number of input channels.
      out_channels: number of filters.
      size: height and width of the filters in pixels, or one number for both.
      stride: steps between outputs in pixels, or one number for both.
      padding: one of ``PADDINGS``.
      initializer: initialiser of the kernel.
      regularizer: regulariser of the kernel.
      use_bias: whether to add a bias to each channel.
    """

    def __init__(self, in_channels: int, out_channels: int, size: int | Sequence[int], stride: int | Sequence[int] = 1,
                 padding: str = "SAME", initializer: Any = None, regularizer: Any = None,
                 use_bias: bool = False) -> None:
        super().__init__(name="image_convolution")
        self.size, self.stride, self.padding = pair(size), pair(stride), padding
        self.out_channels = out_channels
        self.kernel = self.weight([*self.size, in_channels, out_channels], initializer, regularizer=regularizer)
        self.bias = self.weight([out_channels], "zeros") if use_bias else None

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Returns ``[batch, height', width', out_channels]`` in the dtype of ``x``."""
        padding = self.padding
        if padding == "FIXED":
            sides = [[(size - 1) // 2, size // 2] for size in self.size]
            x = tf.pad(x, [[0, 0], *sides, [0, 0]]) if max(self.size) > 1 else x
            padding = "VALID"
        y = convolve_on_device(x, cast_weight(self.kernel, x.dtype), self.stride, padding, (1, 1))
        if self.bias is None:
            return y
        rows = add_bias(tf.reshape(y, [-1, self.out_channels]), tf.convert_to_tensor(self.bias))
        return tf.reshape(rows, tf.shape(y))


def max_pool(x: tf.Tensor, size: int | Sequence[int], stride: int | Sequence[int], padding: str = "SAME") -> tf.Tensor:
    """Returns the maximum of each channel over windows of images.

    Args:
      x: ``[batch, height, width, channels]``.
      size: height and width of the windows in pixels, or one number for both.
      stride: steps between the windows in pixels, or one number for both.
      padding: ``SAME`` or ``VALID``.

    Returns:
      ``[batch, height', width', channels]``.
    """
    return _pooled(tf.nn.max_pool2d, x, size, stride, padding)


def average_pool(x: tf.Tensor, size: int | Sequence[int], stride: int | Sequence[int],
                 padding: str = "SAME") -> tf.Tensor:
    """Returns the mean of each channel over windows of images; padding does not count. See ``max_pool``."""
    return _pooled(tf.nn.avg_pool2d, x, size, stride, padding)


def _pooled(pool: Any, x: tf.Tensor, size: int | Sequence[int], stride: int | Sequence[int],
            padding: str) -> tf.Tensor:
    y = pool(x, pair(size), pair(stride), padding)
    # As for convolutions (see conv_blocks.primitives), the result of an empty batch may have the wrong shape.
    sizes = [outputs_of(x.shape[axis], window, step, padding)
             for axis, window, step in zip((1, 2), pair(size), pair(stride), strict=True)]
    return tf.reshape(y, [tf.shape(x)[0], *sizes, x.shape[3]])


def global_mean(x: tf.Tensor) -> tf.Tensor:
    """Returns the mean over the pixels of images ``[batch, height, width, channels]``, ``[batch, channels]``.

    The pixels are summed in FP32; the result has the dtype of ``x``.
    """
    return tf.cast(tf.reduce_mean(tf.cast(x, tf.float32), [1, 2]), x.dtype)
