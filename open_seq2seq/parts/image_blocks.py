"""Layers of networks for images ``[batch, height, width, channels]``: ResNet's blocks, and layers that configs list."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, Param, check_params
from open_seq2seq.parts.activations import resolve_activation
from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.convolution import convolve_on_device
from open_seq2seq.parts.dense import add_bias, times_matrix
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.portable import in_shape
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.utils.errors import ConfigError, did_you_mean

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


# Shape of a tensor without the batch axis.
Shape = tuple[int, ...]
_PAIR = (int, list, tuple)


class Kernels(NamedTuple):
    """Initialisation and regularisation of kernels.

    Attributes:
      initializer: initialiser of kernels.
      regularizer: regulariser of kernels and of batch norm's scale.
    """

    initializer: Any = None
    regularizer: Any = None


class Layer(Module):
    """Base of the layers that a config can list.

    Attributes:
      out_shape: shape of the results without the batch axis.
    """

    out_shape: Shape

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        """Returns the layer's result, ``[batch, *out_shape]`` in the compute dtype.

        Args:
          x: ``[batch, …]`` in the compute dtype.
          mask: boolean ``[batch]``, False at rows to exclude from statistics, or None.
          training: whether this is a training step.
        """
        raise NotImplementedError


class _Convolution(Layer):
    def __init__(self, shape: Shape, params: Mapping[str, Any], kernels: Kernels) -> None:
        super().__init__(name="convolution")
        padding = params["padding"].upper()
        self.convolution = ImageConvolution(shape[2], params["filters"], params["kernel_size"], params["strides"],
                                            padding, *kernels, params["use_bias"])
        self._activation = params["activation"]
        sizes = zip(shape, self.convolution.size, self.convolution.stride, strict=False)
        self.out_shape = (*(outputs_of(*size, padding) for size in sizes), params["filters"])

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        return _activated(self.convolution(x), self._activation)


class Whitening(Layer):
    """A convolution whose filters whiten the patches of the training images, and the negatives of these filters.

    The filters are the eigenvectors of the patches' second moments, each divided by the square root of its eigenvalue,
    so that the results are uncorrelated and have the same size. They are set once, by ``fit``, and not trained; the
    biases are trained. See Jordan 2024, https://arxiv.org/abs/2404.00498, section 3.2.
    """

    def __init__(self, shape: Shape, params: Mapping[str, Any]) -> None:
        super().__init__(name="whitening")
        self.size, self._epsilon = pair(params["kernel_size"]), params["epsilon"]
        values = math.prod(self.size) * shape[2]
        self.kernel = self.weight([*self.size, shape[2], values], "orthogonal", trainable=False)
        self.bias = self.weight([2 * values], "zeros")
        sizes = zip(shape, self.size, strict=False)
        self.out_shape = (*(outputs_of(pixels, window, 1, "VALID") for pixels, window in sizes), 2 * values)

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        y = convolve_on_device(x, cast_weight(self.kernel, x.dtype), (1, 1), "VALID", (1, 1))
        both = tf.concat([y, -y], axis=-1)
        return tf.reshape(add_bias(tf.reshape(both, [-1, self.out_shape[-1]]), tf.convert_to_tensor(self.bias)),
                          tf.shape(both))

    def fit(self, images: np.ndarray) -> None:
        """Sets the filters.

        Args:
          images: some of the training images, ``[images, height, width, channels]``.
        """
        values = self.kernel.shape[-1]
        moments, patches = np.zeros([values, values]), 0
        for image in images:
            windows = np.lib.stride_tricks.sliding_window_view(image, self.size, axis=(0, 1))
            rows = np.moveaxis(windows, 2, -1).reshape(-1, values).astype(np.float64)
            moments += rows.T @ rows
            patches += len(rows)
        eigenvalues, vectors = np.linalg.eigh(moments / max(patches, 1))
        filters = vectors / np.sqrt(np.maximum(eigenvalues, 0.0) + self._epsilon)  # rounding may make them negative
        self.kernel.assign(filters.reshape(self.kernel.shape).astype(np.float32))


class _Pooling(Layer):
    def __init__(self, shape: Shape, params: Mapping[str, Any], pool: Callable[..., tf.Tensor]) -> None:
        super().__init__(name="pooling")
        padding = params["padding"].upper()
        self._pool, self._arguments = pool, (params["pool_size"], params["strides"], padding)
        sizes = zip(shape, pair(params["pool_size"]), pair(params["strides"]), strict=False)
        self.out_shape = (*(outputs_of(*size, padding) for size in sizes), shape[2])

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        return self._pool(x, *self._arguments)


class _Norm(Layer):
    def __init__(self, shape: Shape, params: Mapping[str, Any], kernels: Kernels) -> None:
        super().__init__(name="norm")
        self.norm = BatchNorm(shape[-1], params["momentum"], params["epsilon"], regularizer=kernels.regularizer)
        self.out_shape = shape

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        return self.norm(x, like_pixels(mask, x) if x.shape.rank == 4 else mask, training)


class _Dropout(Layer):
    def __init__(self, shape: Shape, params: Mapping[str, Any]) -> None:
        super().__init__(name="dropout")
        self._rate, self.out_shape = params["rate"], shape

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        return dropout(x, self._rate, training)


class _Dense(Layer):
    def __init__(self, shape: Shape, params: Mapping[str, Any], kernels: Kernels) -> None:
        super().__init__(name="dense")
        self.kernel = self.weight([math.prod(shape), params["units"]], kernels.initializer,
                                  regularizer=kernels.regularizer)
        self.bias = self.weight([params["units"]], "zeros") if params["use_bias"] else None
        self._activation, self.out_shape = params["activation"], (params["units"],)

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        rows = tf.reshape(x, [-1, self.kernel.shape[0]])
        y = times_matrix(rows, cast_weight(self.kernel, x.dtype))
        return _activated(y if self.bias is None else add_bias(y, tf.convert_to_tensor(self.bias)), self._activation)


class _Activation(Layer):
    def __init__(self, shape: Shape, activation: Any) -> None:
        super().__init__(name="activation")
        self._activation, self.out_shape = activation, shape

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        return _activated(x, self._activation)


def _activated(x: tf.Tensor, activation: Any) -> tf.Tensor:
    return x if activation is None else activation(x)


_SIZE = Param(_PAIR, minimum=1, maximum=10**4)
_STRIDES = Param(_PAIR, 1, minimum=1, maximum=10**4)
_PADDING = Param(["SAME", "VALID", "same", "valid"], "VALID")
_ACTIVATION = Param((callable, str, type(None)), None, names="activation")
_CHANNELS = Param(int, minimum=1)
# The parameters of each kind of layer: (required, optional).
_POOL = ({"pool_size": _SIZE, "strides": _SIZE}, {"padding": _PADDING})
_SPECS: dict[str, tuple[dict[str, Param], dict[str, Param]]] = {
    "conv2d": ({"filters": _CHANNELS, "kernel_size": _SIZE},
               {"strides": _STRIDES, "padding": _PADDING, "activation": _ACTIVATION, "use_bias": Param(bool, True)}),
    "whitening": ({"kernel_size": _SIZE}, {"epsilon": Param(float, 5e-4, above=0.0)}),
    "max_pooling2d": _POOL,
    "average_pooling2d": _POOL,
    "batch_normalization": ({}, {"momentum": Param(float, 0.99, minimum=0.0, below=1.0),
                                 "epsilon": Param(float, 1e-3, above=0.0)}),
    "dropout": ({}, {"rate": Param(float, 0.5, minimum=0.0, below=1.0)}),
    "dense": ({"units": _CHANNELS}, {"activation": _ACTIVATION, "use_bias": Param(bool, True)}),
}
# Parameters without effect, which all layers accept because configs for NVIDIA's OpenSeq2Seq contain them.
_IGNORED = {"name": Param(object, None), "data_format": Param(object, None)}
KINDS = tuple(_SPECS)
"""Names of the kinds of layers, except activations."""


def make_layer(entry: Any, shape: Shape, kernels: Kernels, path: str) -> Layer:
    """Creates a layer.

    Args:
      entry: a pair (layer, dict of parameters). The layer is one of ``KINDS``, optionally with the prefix
        ``tf.layers.``, or an activation function or its name, whose dict must be empty.
      shape: shape of the layer's input without the batch axis.
      kernels: initialisation and regularisation of kernels.
      path: path of the entry in the config, for messages.

    Raises:
      ConfigError: the entry is invalid, or does not fit the shape of its input.
    """
    if not isinstance(entry, (list, tuple)) or len(entry) != 2 or not isinstance(entry[1], Mapping):
        raise ConfigError([f"'{path}' must be a layer and its parameters, such as ('conv2d', {{'filters': 64, "
                           "'kernel_size': 3}), "f"got {entry!r:.200}."])
    kind = entry[0].removeprefix("tf.layers.") if isinstance(entry[0], str) else entry[0]
    if not isinstance(kind, str) or kind not in _SPECS:
        return _make_activation(kind, entry[1], shape, path)
    required, optional = _SPECS[kind]
    params, problems = check_params(entry[1], required, {**optional, **_IGNORED}, path)
    problems += [f"'{path}/{name}' must be an integer or a pair of integers (height, width), got {value!r}."
                 for name, value in params.items() if required.get(name, optional.get(name)) in (_SIZE, _STRIDES)
                 and not isinstance(value, int) and (len(value) != 2 or any(type(one) is not int for one in value))]
    if len(shape) != 3 and kind in ("conv2d", "whitening", "max_pooling2d", "average_pooling2d"):
        problems.append(f"'{path}' is {kind}, which needs images, but a dense layer before it returns vectors: move it "
                        "before the first dense layer.")
    if problems:
        raise ConfigError(problems)
    if "activation" in params:
        params["activation"] = resolve_activation(params["activation"], f"{path}/activation")
    layer = _make(kind, params, shape, kernels)
    if min(layer.out_shape) < 1:
        raise ConfigError([f"'{path}' is {kind}, whose window is larger than its input of {shape[0]} × {shape[1]} "
                           "pixels: use the padding SAME, a smaller window or larger images."])
    return layer


def _make(kind: str, params: Mapping[str, Any], shape: Shape, kernels: Kernels) -> Layer:
    if kind == "conv2d":
        return _Convolution(shape, params, kernels)
    if kind == "whitening":
        return Whitening(shape, params)
    if kind == "batch_normalization":
        return _Norm(shape, params, kernels)
    if kind == "dropout":
        return _Dropout(shape, params)
    if kind == "dense":
        return _Dense(shape, params, kernels)
    return _Pooling(shape, params, max_pool if kind == "max_pooling2d" else average_pool)


def _make_activation(kind: Any, params: Mapping[str, Any], shape: Shape, path: str) -> Layer:
    if params:
        raise ConfigError([f"'{path}' is {kind!r:.100}, which is not a layer with parameters: use one of "
                           f"{', '.join(KINDS)}, or an activation with an empty dict.{did_you_mean(str(kind), KINDS)}"])
    try:
        return _Activation(shape, resolve_activation(kind, path))
    except ConfigError as error:
        raise ConfigError([f"'{path}' is {kind!r:.100}, which is neither an activation nor one of {', '.join(KINDS)}."
                           f"{did_you_mean(str(kind), KINDS)}"]) from error


DATA_FORMAT = Param(["channels_first", "channels_last"], "channels_last", "Accepted for old configs; has no effect, "
                    "because images are always channels-last and TensorFlow chooses the layout of each convolution for "
                    "the device.", on_change=FREE)


def in_channels_param() -> Param:
    """Returns the declaration of the number of channels of the images."""
    return Param(int, 3, "Number of channels of the images; set from the data layer.", "channels", derived=True,
                 minimum=1)


def image_source(input_dict: Mapping[str, Any], in_channels: int,
                 dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Returns an encoder's input.

    Args:
      input_dict: a dict whose ``source_tensors`` begin with images, and which may contain ``ids`` ``[batch]``.
      in_channels: expected number of channels.
      dtype: dtype of the returned images.

    Returns:
      (images ``[batch, height, width, in_channels]``; boolean ``[batch]``, False for rows with a negative id, which
      contain no example, or None without ``ids``).
    """
    x = in_shape(input_dict["source_tensors"][0], [None, None, None, in_channels])
    ids = input_dict.get("ids")
    return tf.cast(x, dtype), None if ids is None else ids >= 0
