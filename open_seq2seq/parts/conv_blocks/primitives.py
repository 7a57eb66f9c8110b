"""TensorFlow's convolutions, made correct for empty batches; the package uses no other convolutions.

With oneDNN, TensorFlow returns the convolution of an empty batch in the shape of its input: ``[0, 12, 3]`` convolved to
4 channels with a stride of 2 remains ``[0, 12, 3]``. Later operations then fail, or gradients have wrong shapes. So
results are reshaped to the correct shape, which costs nothing. Without oneDNN, the gradient of a depthwise kernel is
uninitialised memory if there are no outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def convolve(x: tf.Tensor, kernel: tf.Tensor, strides: Sequence[int], padding: str,
             dilations: Sequence[int]) -> tf.Tensor:
    """Convolves with ``tf.nn.convolution``.

    Args:
      x: ``[batch, *places, in_channels]`` with one or two axes of places.
      kernel: ``[*taps, in_channels, out_channels]``.
      strides: for each axis of places.
      padding: ``SAME`` or ``VALID``.
      dilations: for each axis of places.

    Returns:
      ``[batch, *places', out_channels]``.
    """
    y = tf.nn.convolution(x, kernel, strides, padding, dilations=dilations)
    axes = zip(kernel.shape[:-2], strides, dilations, strict=True)
    return _in_shape(y, x, [_outputs(size, *steps, padding) for size, steps in zip(_places(x), axes, strict=True)],
                     kernel.shape[-1])


def convolve_channels(x: tf.Tensor, kernel: tf.Tensor, stride: int, padding: str, dilation: int = 1) -> tf.Tensor:
    """Convolves each channel over time with a filter of its own, with ``tf.nn.depthwise_conv2d``.

    Args:
      x: ``[batch, time, channels]``.
      kernel: ``[taps, channels, 1]``.
      stride: inputs from one output to the next.
      padding: ``SAME`` or ``VALID``.
      dilation: inputs from one tap to the next.

    Returns:
      ``[batch, time', channels]``.
    """
    time = _outputs(_places(x)[0], kernel.shape[0], stride, dilation, padding)
    kernel = _with_zero_gradient_unless((_size(x, 0) > 0) & (time > 0), kernel)
    # Time as the height of an image of width 1 is the fastest layout.
    y = tf.nn.depthwise_conv2d(x[:, :, tf.newaxis], kernel[:, tf.newaxis], [1, stride, stride, 1], padding,
                               dilations=[dilation, 1])
    return _in_shape(y[:, :, 0], x, [time], kernel.shape[1])


def convolve_padded(x: tf.Tensor, kernel: tf.Tensor, stride: int, dilation: int, pads: Sequence[Any]) -> tf.Tensor:
    """Convolves ``[batch, time, in_channels]`` with zeros around it.

    Args:
      x: ``[batch, time, in_channels]``.
      kernel: ``[taps, in_channels, out_channels]``; the number of taps may be unknown while a graph is made.
      stride: inputs from one output to the next.
      dilation: inputs from one tap to the next.
      pads: zeros before the first input and behind the last one.

    Returns:
      ``[batch, time', out_channels]``.
    """
    # Time as the width of an image of height 1. A slice would copy what squeeze takes as it is.
    y = tf.raw_ops.Conv2D(input=tf.expand_dims(x, 1), filter=tf.expand_dims(kernel, 0), strides=[1, 1, stride, 1],
                          dilations=[1, 1, dilation, 1], padding="EXPLICIT",
                          explicit_paddings=[0, 0, 0, 0, *pads, 0, 0])
    taps, channels = (_size(kernel, axis) for axis in (0, 2))
    time = _outputs(_places(x)[0] + sum(pads), taps, stride, dilation, "VALID")
    return _in_shape(tf.squeeze(y, [1]), x, [time], channels)


def _with_zero_gradient_unless(outputs: Any, kernel: tf.Tensor) -> tf.Tensor:
    @tf.custom_gradient
    def same(kernel: tf.Tensor) -> Any:
        return tf.identity(kernel), lambda gradient: tf.where(outputs, gradient, tf.zeros_like(gradient))

    return same(kernel)


def _size(x: tf.Tensor, axis: int) -> Any:
    known = x.shape[axis]
    return tf.shape(x)[axis] if known is None else known


def _places(x: tf.Tensor) -> list[Any]:
    return [_size(x, axis) for axis in range(1, len(x.shape) - 1)]


def _outputs(size: Any, taps: Any, stride: int, dilation: int, padding: str) -> Any:
    if padding == "SAME":
        return -(-size // stride)
    return (size - (taps - 1) * dilation - 1) // stride + 1


def _in_shape(y: tf.Tensor, x: tf.Tensor, places: Sequence[Any], channels: Any) -> tf.Tensor:
    # Inputs shorter than the kernel make no outputs, not a negative number of them.
    sizes = [max(size, 0) if isinstance(size, int) else tf.maximum(size, 0) for size in places]
    return tf.reshape(y, [_size(x, 0), *sizes, channels])
