"""Layers that a config can list: convolution, pooling, batch norm, dropout, dense and activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import Param, check_params
from open_seq2seq.parts.activations import resolve_activation
from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dense import add_bias, times_matrix
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.image_blocks.convolution import ImageConvolution, average_pool, max_pool, outputs_of, pair
from open_seq2seq.parts.image_blocks.residual import like_pixels
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.utils.errors import ConfigError, did_you_mean

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
    if len(shape) != 3 and kind in ("conv2d", "max_pooling2d", "average_pooling2d"):
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
