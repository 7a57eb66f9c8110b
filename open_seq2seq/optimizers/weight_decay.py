"""Decoupled weight decay for any optimizer, and penalties on weights for ``regularizer`` in configs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import tensorflow as tf

from open_seq2seq.config.names import register, with_package
from open_seq2seq.optimizers.optimizer import Variables
from open_seq2seq.utils.errors import ConfigError


class WeightDecay:
    """Reduces weights independently of the gradient: ``w -= lr · decay · w`` (Loshchilov & Hutter 2019).

    Unlike an L2 penalty, the decay does not pass through momentum, adaptive step sizes, clipping or LARC. As in AdamW,
    it is multiplied by the learning rate.

    Args:
      decay: the decay factor; must be positive.
      exclude: regular expression; variables with a match anywhere in their name do not decay.

    Raises:
      ConfigError: the decay is out of range, or the expression is malformed.
    """

    def __init__(self, decay: float, exclude: str | None = None) -> None:
        if not decay > 0.0:
            raise ConfigError([f"'decoupled_weight_decay' must be positive, or None to disable it; got {decay!r}."])
        self._decay = decay
        self._key = f"'decoupled_weight_decay_exclude' is {exclude!r}"
        try:
            self._exclude = re.compile(exclude) if exclude else None
        except re.error as error:
            raise ConfigError([f"{self._key}, which is not a valid regular expression: {error}."]) from error
        self._names: frozenset[str] = frozenset()

    def build(self, names: Iterable[str]) -> None:
        """Selects the variables that decay.

        Args:
          names: names of the trainable variables.

        Raises:
          ConfigError: the expression matches no name or all names.
        """
        names = list(names)
        kept = [name for name in names if self._exclude is None or not self._exclude.search(name)]
        if self._exclude is not None and len(kept) == len(names):
            raise ConfigError([f"{self._key}, which matches no variable's name. Example of a name: '{names[0]}'."])
        if not kept:
            raise ConfigError([f"{self._key}, which excludes every variable from the decay: choose an "
                               "expression that matches fewer, or remove it and 'decoupled_weight_decay'."])
        self._names = frozenset(kept)

    def apply(self, names: Iterable[str], variables: Variables, learning_rate: tf.Tensor) -> None:
        """Decays the variables in ``names`` that are not excluded; the other variables do not change.

        Args:
          names: names of the variables that are updated.
          variables: the variables by name.
          learning_rate: FP32 scalar, the learning rate of this update.
        """
        for name in names:
            if name in self._names:
                # w is not multiplied by 1 - lr · decay, because the rounding error of this factor would affect all
                # weights.
                variables[name].assign_sub(learning_rate * self._decay * variables[name])


def l2_regularizer(scale: float) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that computes the penalty ``scale · Σ w² / 2``, whose gradient is ``scale · w``.

    Keras' ``L2(x)`` does not divide by 2, so it equals this penalty with ``scale = 2x``.
    """
    return lambda weights: scale * tf.nn.l2_loss(tf.convert_to_tensor(weights))


def l1_regularizer(scale: float) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that computes the penalty ``scale · Σ |w|``."""
    return lambda weights: scale * tf.reduce_sum(tf.abs(weights))


_NAMES = {function.__name__: function for function in (l1_regularizer, l2_regularizer)}
register("regularizer", lambda: with_package(_NAMES, "open_seq2seq.optimizers"))
