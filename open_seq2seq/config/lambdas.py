"""Replaces lambdas that compute a well-known activation by its name, so that a config can be saved with checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from types import LambdaType
from typing import Any

import numpy as np

_GRID = np.concatenate([np.linspace(-30.0, 30.0, 241), np.linspace(-0.2, 0.2, 41)]).astype(np.float32)
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
# Activations by the names that configs give them.
_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu20": lambda x: np.clip(x, 0, 20),
    "relu6": lambda x: np.clip(x, 0, 6),
    "selu": lambda x: _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(np.minimum(x, 0))),
    "swish": lambda x: x / (1 + np.exp(-x)),
}


def name_lambdas(value: Any, key: str = "") -> Any:
    """Returns a copy of a section in which lambdas are replaced by the names of equal activations.

    A lambda is compared by its values between -30 and 30. Lambdas under keys without ``activation``, and those that
    equal none of ReLU (unlimited, or at most 6 or 20), swish, SELU and the identity, are kept.

    Args:
      value: the section, or a value in it.
      key: the nearest key above the value.
    """
    if isinstance(value, dict):
        return {name: name_lambdas(item, str(name)) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(name_lambdas(item, key) for item in value)
    if "activation" in key and isinstance(value, LambdaType) and value.__name__ == "<lambda>":
        return _name_of(value) or value
    return value


def _name_of(function: Callable[[Any], Any]) -> str | None:
    """Returns the name of the activation that a function computes; None if it is another function, or fails."""
    import tensorflow as tf

    try:
        with tf.device("CPU"):
            values = np.asarray(function(tf.constant(_GRID)))
    except Exception:  # a user's code may raise anything; training reports that the lambda cannot be saved
        return None
    expected = {name: activation(_GRID.astype(np.float64)) for name, activation in _ACTIVATIONS.items()}
    return next((name for name, wanted in expected.items()
                 if values.shape == wanted.shape and np.allclose(values, wanted, rtol=1e-5, atol=1e-6)), None)
