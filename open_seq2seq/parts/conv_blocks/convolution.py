"""Convolutions over time (plain, depthwise-separable or causal) and over time and frequency.

Inputs before the start and after the end count as zeros. An output does not depend on how far its batch is padded: with
stride ``s``, the padding ``SAME`` pads as if the length were a multiple of ``s``.

Gradients are computed by convolutions or matrix products. For convolutions over time, TensorFlow's kernels for the
gradients are often slower than these (docs/speed.md); without oneDNN, they do not support dilation. For images, only
the kernel for the gradient of the input is slower, and only without oneDNN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.primitives import convolve, convolve_channels, convolve_padded
from open_seq2seq.parts.dense import add_bias, times_matrix
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.portable import in_shape
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.utils.machine import has_bfloat16, has_onednn


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


# Number of input channels from which the gradient of a kernel without dilation is computed faster by matrix products
# than by oneDNN's convolution (docs/speed.md). With a dilation, it always is, because the input need not be rearranged.
_CHANNELS_FOR_PRODUCTS = {tf.bfloat16: 256, tf.float32: 512}
KINDS = ("conv1d", "sep_conv1d", "conv2d", "tcn")
"""Kinds of convolutions: ``conv1d`` over time, ``sep_conv1d`` depthwise-separable over time, ``conv2d`` over time and
frequency, and ``tcn`` over time with a bias. The other kinds have no bias, because normalisation usually follows."""


class Window:
    """Window of a convolution along one axis.

    Args:
      size: number of filter taps.
      stride: step between consecutive outputs, in inputs.
      dilation: step between consecutive taps, in inputs.
      padding: ``SAME``, ``VALID`` or ``CAUSAL``.

    Attributes:
      span: number of inputs from the first to the last tap.
    """

    def __init__(self, size: int, stride: int = 1, dilation: int = 1, padding: str = "SAME") -> None:
        self.size = size
        self.stride = stride
        self.dilation = dilation
        self.padding = padding
        self.span = (size - 1) * dilation + 1

    def outputs(self, length: Any) -> Any:
        """Returns the number of outputs for ``length`` inputs, which may be an integer, an array or an int32 tensor."""
        if self.padding == "VALID":
            count = (length - self.span) // self.stride + 1
            if isinstance(length, np.ndarray):
                return np.maximum(count, 0)
            return tf.maximum(count, 0) if tf.is_tensor(length) else max(count, 0)
        return (length + self.stride - 1) // self.stride

    @property
    def before(self) -> int:
        """Number of zeros padded before the first input."""
        if self.padding == "CAUSAL":
            return self.span - 1
        return max(self.span - self.stride, 0) // 2 if self.padding == "SAME" else 0

    def pads(self, length: Any) -> list[Any]:
        """Returns the numbers of zeros padded before and after ``length`` inputs.

        If the stride is 1, these numbers do not depend on ``length``.
        """
        if self.padding == "VALID":
            return [0, 0]
        behind = (self.outputs(length) - 1) * self.stride + self.span - self.before - length
        return [self.before, tf.maximum(behind, 0) if tf.is_tensor(behind) else max(behind, 0)]

    @property
    def is_plain_same(self) -> bool:
        """Whether TensorFlow's ``SAME`` pads in the same way."""
        return self.padding == "SAME" and self.stride == 1


class Convolution1D(Module):
    """Convolution over time of ``[batch, time, channels]``."""

    def __init__(self, in_channels: int, out_channels: int, window: Window, initializer: Any = None,
                 regularizer: Any = None, use_bias: bool = False) -> None:
        super().__init__(name="convolution")
        self.window = window
        self.out_channels = out_channels
        self.kernel = self.weight([window.size, in_channels, out_channels], initializer, regularizer=regularizer)
        self.bias = self.weight([out_channels], "zeros") if use_bias else None

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Returns ``[batch, time', out_channels]`` in the dtype of ``x``."""
        kernel, window = cast_weight(self.kernel, x.dtype), self.window
        if window.size == window.stride == 1:
            y = times_matrix(x, kernel[0])
        else:
            y = convolve_over_time(x, kernel, window)
        if self.bias is None:
            return y
        rows = add_bias(tf.reshape(y, [-1, self.out_channels]), tf.convert_to_tensor(self.bias))
        return tf.reshape(rows, tf.shape(y))


class SeparableConvolution1D(Module):
    """Depthwise convolution over time, and then a pointwise convolution over channels.

    See QuartzNet, Kriman et al. 2019, https://arxiv.org/abs/1910.10261.
    """

    def __init__(self, in_channels: int, out_channels: int, window: Window, initializer: Any = None,
                 regularizer: Any = None) -> None:
        super().__init__(name="separable_convolution")
        self.window = window
        self.out_channels = out_channels
        self.depthwise = self.weight([window.size, in_channels, 1], initializer, regularizer=regularizer)
        self.pointwise = self.weight([in_channels, out_channels], initializer, regularizer=regularizer)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Returns ``[batch, time', out_channels]`` in the dtype of ``x``."""
        kernel, window = cast_weight(self.depthwise, x.dtype), self.window
        padding = "SAME" if window.is_plain_same else "VALID"
        y = convolve_channels(_padded(x, window), kernel, window.stride, padding, window.dilation)
        return times_matrix(y, cast_weight(self.pointwise, x.dtype))


class Convolution2D(Module):
    """Convolution over time and frequency of ``[batch, time, frequency, channels]``."""

    def __init__(self, in_channels: int, out_channels: int, window: Window, frequency: Window,
                 initializer: Any = None, regularizer: Any = None) -> None:
        super().__init__(name="convolution_2d")
        self.window = window
        self.frequency = frequency
        self.out_channels = out_channels
        self.kernel = self.weight([window.size, frequency.size, in_channels, out_channels], initializer,
                                  regularizer=regularizer)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Returns ``[batch, time', frequency', out_channels]`` in the dtype of ``x``."""
        time, frequency = self.window, self.frequency
        padded = tf.pad(x, [[0, 0], time.pads(tf.shape(x)[1]), frequency.pads(x.shape[2]), [0, 0]])
        # In a graph, padding by a computed number of frames loses the static shape.
        padded = in_shape(padded, [None, None, x.shape[2] + sum(frequency.pads(x.shape[2])), x.shape[3]], True)
        y = convolve_on_device(padded, cast_weight(self.kernel, x.dtype), [time.stride, frequency.stride], "VALID",
                               [time.dilation, frequency.dilation])
        return in_shape(y, [None, None, frequency.outputs(x.shape[2]), self.out_channels])


def make_convolution(kind: str, in_channels: int, out_channels: int, windows: Sequence[Window],
                     initializer: Any = None, regularizer: Any = None) -> Module:
    """Creates a convolution of one of the ``KINDS``; ``windows`` are over time and, for ``conv2d``, over frequency."""
    if kind == "conv2d":
        return Convolution2D(in_channels, out_channels, windows[0], windows[1], initializer, regularizer)
    if kind == "sep_conv1d":
        return SeparableConvolution1D(in_channels, out_channels, windows[0], initializer, regularizer)
    return Convolution1D(in_channels, out_channels, windows[0], initializer, regularizer, use_bias=kind == "tcn")


def convolve_over_time(x: tf.Tensor, kernel: tf.Tensor, window: Window) -> tf.Tensor:
    """Convolves ``[batch, time, in_channels]`` with a kernel ``[taps, in_channels, out_channels]``.

    On a CPU without oneDNN, dtypes other than float16 are computed in FP32, with the gradients of ``convolve_1d``,
    which are usually faster than TensorFlow's. On a CPU with oneDNN, a convolution with a stride of 1 and many channels
    or a dilation keeps its dtype, and ``convolve_1d`` computes the gradient of the kernel by matrix products.

    Returns:
      ``[batch, time', out_channels]`` in the dtype of ``x``.
    """
    if current_pass().portable:
        padding = "SAME" if window.is_plain_same else "VALID"
        return convolve(_padded(x, window), kernel, [window.stride], padding, [window.dilation])
    if window.stride == 1 and _gains_from_products(kernel, window.dilation):
        return convolve_1d(x, kernel, Steps(1, window.dilation, window.pads(window.span)), by_products=True)
    if not _lacks_onednn(x.dtype):
        padding = "SAME" if window.is_plain_same else "VALID"
        return convolve_on_device(_padded(x, window), kernel, [window.stride], padding, [window.dilation])
    wide, kernel = tf.cast(x, tf.float32), tf.cast(kernel, tf.float32)
    if window.stride == 1:
        y = convolve_1d(wide, kernel, Steps(1, window.dilation, window.pads(window.span)))
    else:
        y = convolve_1d(_padded(wide, window), kernel, Steps(window.stride))
    return tf.cast(y, x.dtype)


def convolve_on_device(x: tf.Tensor, kernel: tf.Tensor, strides: Sequence[int], padding: str,
                       dilations: Sequence[int]) -> tf.Tensor:
    """Convolves with ``primitives.convolve``, or with an alternative that is faster on this machine.

    The arguments and the result are those of ``primitives.convolve``.

    * On CPUs without bfloat16 instructions, bfloat16 is computed in FP32, because TensorFlow's bfloat16 kernels are
      about 30 times slower on such CPUs.
    * On CPUs without oneDNN, images are convolved by ``convolve_images``, where possible, because its gradient is
      faster.
    * In a portable pass, which has no gradient, neither applies.

    For a dilation, ``primitives.convolve`` rearranges the input into a larger batch. TensorFlow's dilated kernels are
    not used, because they have no gradient in half precision or on CPUs without oneDNN.
    """
    if current_pass().portable:
        return convolve(x, kernel, strides, padding, dilations)
    if x.dtype == tf.bfloat16 and not has_bfloat16() and not tf.config.get_visible_devices("GPU"):
        wide = convolve_on_device(tf.cast(x, tf.float32), tf.cast(kernel, tf.float32), strides, padding, dilations)
        return tf.cast(wide, x.dtype)
    keeps_size = padding == "SAME" and {*strides, *dilations} == {1}
    is_odd = all(size % 2 for size in kernel.shape[:2]) and max(kernel.shape[:2]) > 1  # and has more than one tap
    if x.shape.rank == 4 and keeps_size and is_odd and _lacks_onednn(x.dtype):
        return convolve_images(x, kernel)
    return convolve(x, kernel, strides, padding, dilations)


def _lacks_onednn(dtype: tf.DType) -> bool:
    """Returns whether TensorFlow's gradients are slow: on CPUs without oneDNN, in all dtypes but float16."""
    return not (has_onednn() or dtype == tf.float16 or tf.config.get_visible_devices("GPU"))


def _gains_from_products(kernel: tf.Tensor, dilation: int) -> bool:
    """Returns whether ``convolve_1d`` by products is faster for a kernel ``[taps, in_channels, out_channels]``."""
    if not has_onednn() or tf.config.get_visible_devices("GPU") or (kernel.dtype == tf.bfloat16 and not has_bfloat16()):
        return False
    least = _CHANNELS_FOR_PRODUCTS.get(kernel.dtype)
    return least is not None and (dilation > 1 or kernel.shape[1] >= least)


def _padded(x: tf.Tensor, window: Window) -> tf.Tensor:
    if window.is_plain_same or window.padding == "VALID":
        return x
    padded = tf.pad(x, [[0, 0], window.pads(tf.shape(x)[1]), [0, 0]])
    return in_shape(padded, [None, None, x.shape[2]], is_padded=True)


class ReceptiveField(NamedTuple):
    """Frames that an output depends on: output ``o`` needs frames ``o · stride - before`` to ``o · stride + behind``.

    Attributes:
      before: number of frames before frame ``o · stride``; infinite if outputs depend on all earlier frames.
      behind: number of frames after frame ``o · stride``.
      stride: step between consecutive outputs, in frames.
      least: smallest number of frames that gives an output.
    """

    before: float
    behind: int
    stride: int
    least: int


def field_of(windows: Sequence[Window]) -> ReceptiveField:
    """Returns the receptive field of stacked convolutions with these windows, listed from the first layer up."""
    first = last = 0
    stride = least = 1
    for window in reversed(windows):
        first = first * window.stride - window.before
        last = last * window.stride - window.before + window.span - 1
        least = (least - 1) * window.stride + (window.span if window.padding == "VALID" else 1)
        stride *= window.stride
    return ReceptiveField(-first, last, stride, least)
