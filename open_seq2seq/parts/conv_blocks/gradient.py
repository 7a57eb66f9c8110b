"""Convolutions whose gradients are computed by convolutions or matrix products.

For convolutions over time, TensorFlow's kernels for the gradients are often slower than the equivalent convolutions or
matrix products (docs/speed.md); without oneDNN, they do not support dilation. For images, only the kernel for the
gradient of the input is slower, and only without oneDNN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.conv_blocks.primitives import convolve, convolve_padded


class Steps(NamedTuple):
    """Stride, dilation and padding over time.

    ``convolve_1d`` supports a stride above 1 only without dilation and padding.

    Attributes:
      stride: step between consecutive outputs, in inputs.
      dilation: step between consecutive taps, in inputs.
      pads: numbers of zeros before the first input and after the last one.
    """

    stride: int = 1
    dilation: int = 1
    pads: Sequence[int] = (0, 0)


def convolve_1d(x: tf.Tensor, kernel: tf.Tensor, steps: Steps, by_products: bool = False) -> tf.Tensor:
    """Convolves ``[batch, time, in_channels]`` with ``[taps, in_channels, out_channels]``.

    The result is ``y[t] = Σ_k x[stride · t + dilation · k] · kernel[k]``. The gradient of ``x`` is the gradient of
    ``y`` convolved with the reversed kernel; with a stride above 1, TensorFlow's own gradient is used. The gradient of
    the kernel is ``x`` convolved with the gradient of ``y``, where examples take the role of channels, and the channels
    of ``x`` the role of examples.

    Args:
      x: ``[batch, time, in_channels]``.
      kernel: ``[taps, in_channels, out_channels]`` in the dtype of ``x``.
      steps: stride, dilation and padding.
      by_products: whether to compute the gradient of the kernel by one matrix product for each tap instead of a
        convolution; requires a stride of 1.

    Returns:
      ``[batch, time', out_channels]``.
    """

    @tf.custom_gradient
    def convolved(x: tf.Tensor, kernel: tf.Tensor) -> Any:
        def grad(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            d_kernel = (_of_kernel_by_products if by_products else _of_kernel)(x, dy, kernel.shape, steps)
            return _of_input(dy, kernel, tf.shape(x), steps), d_kernel

        return _convolve(x, kernel, steps), grad

    return convolved(x, kernel)


def convolve_images(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Convolves images with stride 1 and the padding ``SAME``; the filters must have odd heights and widths.

    The gradient of the images is a convolution with the reversed kernel, as in ``convolve_1d``. TensorFlow computes the
    gradient of the kernel.

    Args:
      x: ``[batch, height, width, in_channels]``.
      kernel: ``[filter height, filter width, in_channels, out_channels]``.

    Returns:
      ``[batch, height, width, out_channels]``.
    """

    @tf.custom_gradient
    def convolved(x: tf.Tensor, kernel: tf.Tensor) -> Any:
        def grad(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.control_dependencies([dy]):  # as in _of_input
                reversed_kernel = tf.transpose(tf.reverse(kernel, [0, 1]), [0, 1, 3, 2])
            d_kernel = tf.raw_ops.Conv2DBackpropFilter(input=x, filter_sizes=kernel.shape, out_backprop=dy,
                                                       strides=[1, 1, 1, 1], padding="SAME")
            return convolve(dy, reversed_kernel, (1, 1), "SAME", (1, 1)), d_kernel

        return convolve(x, kernel, (1, 1), "SAME", (1, 1)), grad

    return convolved(x, kernel)


def _convolve(x: tf.Tensor, kernel: tf.Tensor, steps: Steps) -> tf.Tensor:
    return convolve_padded(x, kernel, steps.stride, steps.dilation, steps.pads)


def _of_input(dy: tf.Tensor, kernel: tf.Tensor, shape: tf.Tensor, steps: Steps) -> tf.Tensor:
    if steps.stride > 1:  # TensorFlow's kernel skips the zeros that a convolution would need between gradients
        dx = tf.raw_ops.Conv2DBackpropInput(
            input_sizes=tf.stack([shape[0], 1, shape[1], shape[2]]), filter=tf.expand_dims(kernel, 0),
            out_backprop=tf.expand_dims(dy, 1), strides=[1, 1, steps.stride, 1], padding="VALID")
        return tf.squeeze(dx, [1])
    reach = (kernel.shape[0] - 1) * steps.dilation
    pads = (reach - steps.pads[0], reach - steps.pads[1])
    # Without this dependency on dy, the reversed kernels of all layers would be made at once and stay in memory.
    with tf.control_dependencies([dy]):
        reversed_kernel = tf.transpose(tf.reverse(kernel, [0]), [0, 2, 1])
    return _convolve(dy, reversed_kernel, Steps(1, steps.dilation, pads))


def _of_kernel(x: tf.Tensor, dy: tf.Tensor, shape: tf.TensorShape, steps: Steps) -> tf.Tensor:
    def by_channel() -> tf.Tensor:
        return _convolve(tf.transpose(x, [2, 1, 0]), tf.transpose(dy, [1, 0, 2]),
                         Steps(steps.dilation, steps.stride, steps.pads))[:, :shape[0]]

    # In by_channel, dy is the kernel. TensorFlow does not support empty kernels, but dy may be empty.
    sums = tf.cond(tf.size(dy) > 0, by_channel, lambda: tf.zeros([shape[1], shape[0], shape[2]], x.dtype))
    return tf.transpose(sums, [1, 0, 2])


def _of_kernel_by_products(x: tf.Tensor, dy: tf.Tensor, shape: tf.TensorShape, steps: Steps) -> tf.Tensor:
    """Returns the same as ``_of_kernel``, for a stride of 1; sums are accumulated in FP32 even in half precision.

    The gradient of tap k is the product of the inputs that tap k has read and the gradients of the outputs. ``x`` and
    ``dy`` are padded to the same length, so these inputs are the rows of the flattened ``x`` from dilation · k on,
    which need not be copied.
    """
    x = tf.pad(x, [[0, 0], steps.pads, [0, 0]])
    dy = tf.pad(dy, [[0, 0], [0, tf.shape(x)[1] - tf.shape(dy)[1]], [0, 0]])
    inputs, outputs = tf.reshape(x, [-1, shape[1]]), tf.reshape(dy, [-1, shape[2]])
    count = tf.shape(inputs)[0]
    begins = [steps.dilation * tap for tap in range(shape[0])]
    return tf.stack([tf.matmul(inputs[begin:], outputs[:tf.maximum(count - begin, 0)], transpose_a=True)
                     for begin in begins])
