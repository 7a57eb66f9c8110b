"""TensorFlow's convolutions with fixes for empty batches, on which all convolutional layers of the package are based.

With oneDNN, TensorFlow returns the convolution of an empty batch in the shape of its input: ``[0, 12, 3]`` convolved to
4 channels with stride 2 remains ``[0, 12, 3]``. Later operations then fail, or gradients have wrong shapes. Therefore
results are reshaped to the correct shape, which takes no time. Without oneDNN, the gradient of a depthwise kernel is
uninitialised memory if there are no outputs; this gradient is replaced by zeros.

With oneDNN, TensorFlow 2.21 writes outside of its memory when it computes the gradient of a kernel with one tap for an
odd number of images with fewer than 16 channels and an even stride. Therefore inputs between the strides are removed
before a convolution with one tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.forward_pass import current_pass


def convolve(x: tf.Tensor, kernel: tf.Tensor, strides: Sequence[int], padding: str,
             dilations: Sequence[int]) -> tf.Tensor:
    """Convolves with ``tf.nn.convolution``.

    Args:
      x: ``[batch, *sizes, in_channels]`` with one or two spatial axes ``sizes``.
      kernel: ``[*taps, in_channels, out_channels]``.
      strides: stride of each spatial axis.
      padding: ``SAME`` or ``VALID``.
      dilations: dilation of each spatial axis.

    Returns:
      ``[batch, *sizes', out_channels]``.
    """
    if {*kernel.shape[:-2]} == {1} and {*strides} != {1}:
        x, strides = x[(slice(None), *(slice(None, None, stride) for stride in strides))], [1] * len(strides)
    run = _convolve_portably if current_pass().portable else tf.nn.convolution
    y = run(x, kernel, strides, padding, dilations=dilations)
    axes = zip(kernel.shape[:-2], strides, dilations, strict=True)
    return _in_shape(y, x, [_outputs(size, *steps, padding) for size, steps in zip(_sizes(x), axes, strict=True)],
                     kernel.shape[-1])


def _convolve_portably(x: tf.Tensor, kernel: tf.Tensor, strides: Sequence[int], padding: str,
                       dilations: Sequence[int]) -> tf.Tensor:
    """Computes ``tf.nn.convolution`` by a single operation, which has a dilation as an attribute, but no gradient."""
    if x.shape.rank == 4:
        return tf.nn.conv2d(x, kernel, list(strides), padding, dilations=list(dilations))
    y = tf.nn.conv2d(tf.expand_dims(x, 1), tf.expand_dims(kernel, 0), [1, *strides], padding,
                     dilations=[1, *dilations])
    return tf.squeeze(y, [1])


def convolve_channels(x: tf.Tensor, kernel: tf.Tensor, stride: int, padding: str, dilation: int = 1) -> tf.Tensor:
    """Convolves each channel over time with its own filter, by ``tf.nn.depthwise_conv2d``.

    Args:
      x: ``[batch, time, channels]``.
      kernel: ``[taps, channels, 1]``.
      stride: step between consecutive outputs, in inputs.
      padding: ``SAME`` or ``VALID``.
      dilation: step between consecutive taps, in inputs.

    Returns:
      ``[batch, time', channels]``.
    """
    time = _outputs(_sizes(x)[0], kernel.shape[0], stride, dilation, padding)
    kernel = _with_zero_gradient_unless((_size(x, 0) > 0) & (time > 0), kernel)
    # The fastest layout has time as the height of an image of width 1.
    y = tf.nn.depthwise_conv2d(x[:, :, tf.newaxis], kernel[:, tf.newaxis], [1, stride, stride, 1], padding,
                               dilations=[dilation, 1])
    return _in_shape(y[:, :, 0], x, [time], kernel.shape[1])


def convolve_padded(x: tf.Tensor, kernel: tf.Tensor, stride: int, dilation: int, pads: Sequence[Any]) -> tf.Tensor:
    """Convolves over time with explicit zero padding.

    Args:
      x: ``[batch, time, in_channels]``.
      kernel: ``[taps, in_channels, out_channels]``; the number of taps may be unknown at tracing time.
      stride: step between consecutive outputs, in inputs.
      dilation: step between consecutive taps, in inputs.
      pads: numbers of zeros before the first input and after the last one.

    Returns:
      ``[batch, time', out_channels]``.
    """
    # Time is the width of an image of height 1. The height is removed by tf.squeeze, because a slice would copy.
    y = tf.raw_ops.Conv2D(input=tf.expand_dims(x, 1), filter=tf.expand_dims(kernel, 0), strides=[1, 1, stride, 1],
                          dilations=[1, 1, dilation, 1], padding="EXPLICIT",
                          explicit_paddings=[0, 0, 0, 0, *pads, 0, 0])
    taps, channels = (_size(kernel, axis) for axis in (0, 2))
    time = _outputs(_sizes(x)[0] + sum(pads), taps, stride, dilation, "VALID")
    return _in_shape(tf.squeeze(y, [1]), x, [time], channels)


def _with_zero_gradient_unless(outputs: Any, kernel: tf.Tensor) -> tf.Tensor:
    @tf.custom_gradient
    def same(kernel: tf.Tensor) -> Any:
        return tf.identity(kernel), lambda gradient: tf.where(outputs, gradient, tf.zeros_like(gradient))

    return same(kernel)


def _size(x: tf.Tensor, axis: int) -> Any:
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size


def _sizes(x: tf.Tensor) -> list[Any]:
    return [_size(x, axis) for axis in range(1, len(x.shape) - 1)]


def _outputs(size: Any, taps: Any, stride: int, dilation: int, padding: str) -> Any:
    if padding == "SAME":
        return (size + stride - 1) // stride
    return (size - (taps - 1) * dilation - 1) // stride + 1


def _in_shape(y: tf.Tensor, x: tf.Tensor, spatial_sizes: Sequence[Any], channels: Any) -> tf.Tensor:
    # Inputs shorter than the kernel have 0 outputs, not a negative number.
    sizes = [max(size, 0) if isinstance(size, int) else tf.maximum(size, 0) for size in spatial_sizes]
    return tf.reshape(y, [_size(x, 0), *sizes, channels])
