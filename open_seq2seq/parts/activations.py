"""Activation functions by name or as functions, and the fast way through those that clip."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from open_seq2seq.utils.errors import ConfigError, did_you_mean

Activation = Callable[[tf.Tensor], tf.Tensor]


def relu20(x: tf.Tensor) -> tf.Tensor:
    """Returns ``min(max(x, 0), 20)`` (Hannun et al. 2014, https://arxiv.org/abs/1412.5567)."""
    return tf.minimum(tf.nn.relu(x), tf.constant(20.0, x.dtype))


NAMES: dict[str, Activation] = {
    "relu": tf.nn.relu, "relu6": tf.nn.relu6, "relu20": relu20, "elu": tf.nn.elu, "gelu": tf.nn.gelu,
    "leaky_relu": tf.nn.leaky_relu, "swish": tf.nn.silu, "tanh": tf.nn.tanh, "sigmoid": tf.nn.sigmoid,
    "softplus": tf.nn.softplus,
}
_CLIPPED_AT: dict[Any, float | None] = {tf.nn.relu: None, tf.nn.relu6: 6.0, relu20: 20.0}


def resolve_activation(value: Any, path: str) -> Activation | None:
    """Returns the function that a config gives.

    Args:
      value: a function; a name of ``NAMES``; ``tf.nn.relu`` and the like; ``package.module.function``; None for none.
      path: where it stands in the config, for messages.

    Raises:
      ConfigError: there is no such function.
    """
    if value is None or not isinstance(value, str):
        return value
    if value in NAMES:
        return NAMES[value]
    module, _, name = value.rpartition(".")
    try:
        found: Any = tf if module == "tf" or module.startswith("tf.") else importlib.import_module(module or "-")
        for part in (module.split(".")[1:] if found is tf else []) + [name]:
            found = getattr(found, part)
    except (ImportError, AttributeError):
        found = None
    if not callable(found):
        raise ConfigError([f"'{path}' is {value!r}, but there is no such function." + did_you_mean(value, NAMES)])
    return found


@tf.custom_gradient
def _clipped(x: tf.Tensor, keep: tf.Tensor, scale: tf.Tensor, most: tf.Tensor) -> Any:
    y = tf.where(keep, tf.minimum(tf.nn.relu(x), most) * scale, tf.zeros([], x.dtype))

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None, None, None]:
        # Elements that were active, not clipped and kept are told by the result.
        return tf.where((y > 0) & (y < most * scale), dy * scale, tf.zeros([], x.dtype)), None, None, None

    return y, grad


@tf.custom_gradient
def _rectified(x: tf.Tensor, keep: tf.Tensor, scale: tf.Tensor) -> Any:
    y = tf.where(keep, tf.nn.relu(x) * scale, tf.zeros([], x.dtype))

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None, None]:
        return tf.raw_ops.ReluGrad(gradients=dy * scale, features=y), None, None

    return y, grad


def activate_kept(x: tf.Tensor, function: Activation | None, keep: tf.Tensor, scale: float) -> tf.Tensor:
    """Returns ``function(x) · scale`` where ``keep`` holds, else 0: activation, dropout and mask in one.

    Args:
      x: any float tensor.
      function: the activation; None for none.
      keep: boolean, of a shape that broadcasts to ``x``'s.
      scale: of what is kept.
    """
    factor = tf.cast(scale, x.dtype)
    if function not in _CLIPPED_AT:
        return tf.where(keep, (x if function is None else function(x)) * factor, tf.zeros([], x.dtype))
    most = _CLIPPED_AT[function]
    return _rectified(x, keep, factor) if most is None else _clipped(x, keep, factor, tf.constant(most, x.dtype))
