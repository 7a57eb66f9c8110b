"""From a config's ``optimizer`` and ``freeze_variables_regex`` to objects."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.optimizers.adafactor import Adafactor
from open_seq2seq.optimizers.adam import Adam, AdamW, LazyAdam, Nadam
from open_seq2seq.optimizers.adaptive import Adagrad, Ftrl, RMSProp
from open_seq2seq.optimizers.keras_optimizer import KerasOptimizer, is_keras_optimizer
from open_seq2seq.optimizers.novograd import NovoGrad
from open_seq2seq.optimizers.optimizer import Optimizer
from open_seq2seq.optimizers.sgd import SGD, Momentum
from open_seq2seq.utils.errors import ConfigError, did_you_mean

OPTIMIZERS: dict[str, type[Optimizer]] = {
    c.__name__: c for c in (SGD, Momentum, Adam, AdamW, LazyAdam, Nadam, Adagrad, RMSProp, Ftrl, Adafactor, NovoGrad)}
_KERAS_PREFIX = re.compile(r"(tf\.keras|tensorflow\.keras|keras)\.optimizers\.(\w+)$")


def make_optimizer(optimizer: str | type, optimizer_params: Mapping[str, Any] | None = None) -> Optimizer:
    """Makes the optimizer that a config names.

    Args:
      optimizer: a name of ``OPTIMIZERS``, ``tf.keras.optimizers.Lion``,
        ``package.module.Class``, or a class: a subclass of ``Optimizer`` or of Keras' one.
      optimizer_params: its arguments.

    Raises:
      ConfigError: no such optimizer, or arguments that it does not have.
    """
    chosen = _find_class(optimizer) if isinstance(optimizer, str) else optimizer
    params = dict(optimizer_params or {})
    if isinstance(chosen, type) and issubclass(chosen, Optimizer):
        return chosen(**params)
    if is_keras_optimizer(chosen):
        return KerasOptimizer(chosen, **params)
    raise ConfigError([f"'optimizer' is {optimizer!r} but has to be one of {', '.join(OPTIMIZERS)}, a subclass of "
                       "open_seq2seq.optimizers.Optimizer, or a Keras optimizer class."])


def _find_class(name: str) -> Any:
    if name in OPTIMIZERS:
        return OPTIMIZERS[name]
    keras_name = _KERAS_PREFIX.match(name)
    module_name, _, class_name = name.rpartition(".")
    if keras_name or module_name:
        try:
            if keras_name:
                return getattr(tf.keras.optimizers, keras_name.group(2))
            return getattr(importlib.import_module(module_name), class_name)
        except (ImportError, AttributeError) as error:
            raise ConfigError([f"'optimizer' is {name!r}, which cannot be imported: {error}."]) from error
    # Near in spelling, or the same in other letters: "adam".
    same = [known for known in OPTIMIZERS if known.lower() == name.lower()]
    hint = f" Did you mean '{same[0]}'?" if same else did_you_mean(name, OPTIMIZERS)
    raise ConfigError([f"'optimizer' is {name!r} but has to be one of {', '.join(OPTIMIZERS)}, a Keras optimizer "
                       f"(tf.keras.optimizers.Lion), or a class.{hint}"])


def trainable_variables(variables: Mapping[str, tf.Variable],
                        freeze_variables_regex: str | None = None) -> dict[str, tf.Variable]:
    """Returns the variables that training updates.

    Args:
      variables: all variables of the model by name (``named_variables``).
      freeze_variables_regex: variables whose name starts with a match stay as they are.

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
        raise ConfigError([f"{key}, which is no regular expression: {error}."]) from error
    kept = {name: variable for name, variable in trainable.items() if not expression.match(name)}
    if len(kept) == len(trainable):
        raise ConfigError([f"{key}, but no variable's name starts with a match; names are like "
                           f"{', '.join(repr(name) for name in _spread(list(trainable)))}."])
    if not kept:
        raise ConfigError([f"{key}, which freezes all {len(trainable)} variables: nothing is left to train."])
    return kept


def _spread(names: list[str], count: int = 4) -> list[str]:
    """Returns a few names from all over the list."""
    return names[::max(1, len(names) // count)][:count]
