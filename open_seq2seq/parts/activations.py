"""Activation functions by name, and activation, dropout and mask in one operation, with fast gradients for ReLUs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from open_seq2seq.config.names import register, resolve_name

Activation = Callable[[tf.Tensor], tf.Tensor]


def relu20(x: tf.Tensor) -> tf.Tensor:
    """Returns ``min(max(x, 0), 20)`` (Hannun et al. 2014, https://arxiv.org/abs/1412.5567)."""
    return tf.minimum(tf.nn.relu(x), tf.constant(20.0, x.dtype))


NAMES: dict[str, Activation] = {
    "relu": tf.nn.relu, "relu6": tf.nn.relu6, "relu20": relu20, "elu": tf.nn.elu, "gelu": tf.nn.gelu,
    "leaky_relu": tf.nn.leaky_relu, "swish": tf.nn.silu, "tanh": tf.nn.tanh, "sigmoid": tf.nn.sigmoid,
    "softplus": tf.nn.softplus,
}
# Functions of TensorFlow and Keras that a config can name, because the results have the shapes of the arguments, and
# the modules in which they are looked up. All but the softmax functions are element-wise.
_FUNCTIONS = (
    "abs", "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "bessel_i0", "bessel_i0e", "bessel_i1",
    "bessel_i1e", "ceil", "celu", "conj", "cos", "cosh", "digamma", "elu", "erf", "erfc", "erfcinv", "erfinv", "exp",
    "expm1", "floor", "gelu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "imag",
    "leaky_relu", "lgamma", "log", "log1p", "log_sigmoid", "log_softmax", "ndtri", "negative", "ones_like", "real",
    "reciprocal", "reciprocal_no_nan", "relu", "relu6", "rint", "round", "rsqrt", "selu", "sigmoid", "sign", "silu",
    "sin", "sinh", "soft_shrink", "softmax", "softplus", "softsign", "sparse_plus", "sparse_sigmoid", "sqrt", "square",
    "squareplus", "stop_gradient", "swish", "tan", "tanh", "tanh_shrink", "zeros_like")
_MODULES = ("tf.nn", "tf.math", "tf", "tf.keras.ops")
# The ReLUs with fast gradients, and the value at which each is clipped; None if it is not clipped.
_CLIPPED_AT: dict[Any, float | None] = {tf.nn.relu: None, tf.nn.relu6: 6.0, relu20: 20.0}


def resolve_activation(value: Any, path: str) -> Activation | None:
    """Returns the activation function that a config specifies; None for None.

    Args:
      value: a function; a key of ``NAMES``; the name of a Keras activation; or a name like ``tf.nn.relu``,
        ``package.module.function`` or ``path/to/file.py:function``.
      path: path of the parameter in the config, for messages.

    Raises:
      ConfigError: the function does not exist, is not callable, or is defined by code that must not run.
    """
    return None if value is None else resolve_name(value, "activation", path)


@tf.custom_gradient
def _clipped(x: tf.Tensor, keep: tf.Tensor, scale: tf.Tensor, most: tf.Tensor) -> Any:
    y = tf.where(keep, tf.minimum(tf.nn.relu(x), most) * scale, tf.zeros([], x.dtype))

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None, None, None]:
        # The result shows which elements were active, unclipped and kept.
        return tf.where((y > 0) & (y < most * scale), dy * scale, tf.zeros([], x.dtype)), None, None, None

    return y, grad


@tf.custom_gradient
def _rectified(x: tf.Tensor, keep: tf.Tensor, scale: tf.Tensor) -> Any:
    y = tf.where(keep, tf.nn.relu(x) * scale, tf.zeros([], x.dtype))

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None, None]:
        return tf.raw_ops.ReluGrad(gradients=dy * scale, features=y), None, None

    return y, grad


def activate_kept(x: tf.Tensor, function: Activation | None, keep: tf.Tensor, scale: float) -> tf.Tensor:
    """Applies activation, dropout and mask at once: returns ``function(x) · scale`` where ``keep`` is True, else 0.

    Args:
      x: floating-point tensor.
      function: the activation, or None for the identity.
      keep: boolean mask whose shape broadcasts to that of ``x``.
      scale: factor of the elements that are kept.
    """
    factor = tf.cast(scale, x.dtype)
    if function not in _CLIPPED_AT:
        return tf.where(keep, (x if function is None else function(x)) * factor, tf.zeros([], x.dtype))
    most = _CLIPPED_AT[function]
    return _rectified(x, keep, factor) if most is None else _clipped(x, keep, factor, tf.constant(most, x.dtype))


def _tensorflows() -> dict[str, Activation]:
    modules = {place: functools.reduce(getattr, place.split(".")[1:], tf) for place in _MODULES}
    return {f"{place}.{name}": getattr(module, name)
            for place, module in modules.items() for name in _FUNCTIONS if hasattr(module, name)}


def _kerases() -> dict[str, Activation]:
    named = {name: value for name, value in vars(tf.keras.activations).items()
             if inspect.isfunction(value) and name not in ("get", "serialize", "deserialize")}
    return {**{name: value for name, value in named.items() if name not in NAMES},
            **{f"tf.keras.activations.{name}": value for name, value in named.items()}}


register("activation", lambda: NAMES, wanted="a function of a tensor, or the name of one")
register("activation", _tensorflows)
register("activation", _kerases)
