"""Creates the optimizer and selects the trainable variables according to a config."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.config.names import register, resolve_name, with_package
from open_seq2seq.optimizers.adafactor import Adafactor
from open_seq2seq.optimizers.adam import Adam, AdamW, LazyAdam, Nadam
from open_seq2seq.optimizers.adaptive import Adagrad, Ftrl, RMSProp
from open_seq2seq.optimizers.keras_optimizer import KerasOptimizer, is_keras_optimizer
from open_seq2seq.optimizers.novograd import NovoGrad
from open_seq2seq.optimizers.optimizer import Optimizer
from open_seq2seq.optimizers.sgd import SGD, Momentum
from open_seq2seq.utils.errors import ConfigError

OPTIMIZERS: dict[str, type[Optimizer]] = {
    c.__name__: c for c in (SGD, Momentum, Adam, AdamW, LazyAdam, Nadam, Adagrad, RMSProp, Ftrl, Adafactor, NovoGrad)}


def make_optimizer(optimizer: str | type, optimizer_params: Mapping[str, Any] | None = None) -> Optimizer:
    """Creates the optimizer that a config selects.

    Args:
      optimizer: a key of ``OPTIMIZERS``, a name like ``tf.keras.optimizers.Lion``, ``package.module.Class`` or
        ``path/to/file.py:Class``, or a subclass of ``Optimizer`` or of Keras' base class.
      optimizer_params: arguments of the class.

    Raises:
      ConfigError: the optimizer does not exist, or its arguments are invalid.
    """
    chosen = resolve_name(optimizer, "optimizer", "optimizer")
    params = dict(optimizer_params or {})
    return KerasOptimizer(chosen, **params) if is_keras_optimizer(chosen) else chosen(**params)


def trainable_variables(variables: Mapping[str, tf.Variable],
                        freeze_variables_regex: str | None = None) -> dict[str, tf.Variable]:
    """Returns the variables that training updates.

    Args:
      variables: all variables of the model by name (``named_variables``).
      freeze_variables_regex: regular expression; variables whose names start with a match are not trained.

    Raises:
      ConfigError: the expression is malformed, matches nothing, or leaves nothing to train.
    """
    trainable = {name: variable for name, variable in variables.items() if variable.trainable}
    if not freeze_variables_regex:
        return trainable
    key = f"'freeze_variables_regex' is {freeze_variables_regex!r}"
    try:
        expression = re.compile(freeze_variables_regex)
    except re.error as error:
        raise ConfigError([f"{key}, which is not a valid regular expression: {error}."]) from error
    kept = {name: variable for name, variable in trainable.items() if not expression.match(name)}
    if len(kept) == len(trainable):
        raise ConfigError([f"{key}, but no variable's name starts with a match. Examples of names: "
                           f"{', '.join(repr(name) for name in _spread(list(trainable)))}."])
    if not kept:
        raise ConfigError([f"{key}, which freezes all {len(trainable)} variables: choose an expression that matches "
                           "fewer."])
    return kept


def _spread(names: list[str], count: int = 4) -> list[str]:
    """Returns up to ``count`` names, spread over the whole list."""
    return names[::max(1, len(names) // count)][:count]


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, type) and (issubclass(value, Optimizer) or is_keras_optimizer(value))


def _keras_optimizers() -> dict[str, Any]:
    return {f"tf.keras.optimizers.{name}": value for name, value in vars(tf.keras.optimizers).items()
            if is_keras_optimizer(value)}


register("optimizer", lambda: with_package(OPTIMIZERS, "open_seq2seq.optimizers"), fits=_is_optimizer,
         wanted=f"one of {', '.join(OPTIMIZERS)}, a subclass of open_seq2seq.optimizers.Optimizer, or a Keras "
         "optimizer such as tf.keras.optimizers.Lion")
register("optimizer", _keras_optimizers)
