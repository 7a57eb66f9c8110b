"""Replaces lambdas that compute a well-known activation by its name, so that a config can be saved with checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

_GRID = np.concatenate([np.linspace(-30.0, 30.0, 241), np.linspace(-0.2, 0.2, 41)])
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _sigmoid(x: Any) -> np.ndarray:
    return 1 / (1 + np.exp(-np.asarray(x)))


# Activations by the names that configs give them.
_ACTIVATIONS: dict[str, Callable[[Any], np.ndarray]] = {
    "linear": np.asarray,
    "relu": lambda x: np.maximum(x, 0),
    "relu20": lambda x: np.clip(x, 0, 20),
    "relu6": lambda x: np.clip(x, 0, 6),
    "selu": lambda x: _SELU_SCALE * np.where(np.asarray(x) > 0, x, _SELU_ALPHA * np.expm1(np.minimum(x, 0))),
    "swish": lambda x: x * _sigmoid(x),
}
_FUNCTIONS = {
    "clip_by_value": np.clip, "constant": lambda x, *dtype: np.asarray(x), "identity": np.asarray,
    "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply, "sigmoid": _sigmoid}
# What lambdas use of TensorFlow, in NumPy: TensorFlow must not compute before the run has chosen its devices.
_TENSORFLOW = SimpleNamespace(
    **_FUNCTIONS, math=SimpleNamespace(**_FUNCTIONS),
    nn=SimpleNamespace(sigmoid=_sigmoid, silu=_ACTIVATIONS["swish"],
                       **{name: _ACTIVATIONS[name] for name in ("relu", "relu6", "selu", "swish")}))


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
    if "activation" in key and isinstance(value, FunctionType) and value.__name__ == "<lambda>":
        return _name_of(value) or value
    return value


def _name_of(function: FunctionType) -> str | None:
    """Returns the name of the activation that a function computes; None if it is another function, or fails."""
    names = {name: _TENSORFLOW if isinstance(value, ModuleType) and value.__name__ == "tensorflow" else value
             for name, value in function.__globals__.items()}
    in_numpy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    try:
        values = np.asarray(in_numpy(_GRID), np.float64)
    except Exception:  # a user's code may raise anything; training reports that the lambda cannot be saved
        return None
    return next((name for name, activation in _ACTIVATIONS.items() if values.shape == _GRID.shape
                 and np.allclose(values, activation(_GRID), rtol=1e-6, atol=1e-9)), None)
