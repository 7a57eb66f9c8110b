"""Decoupled weight decay for any optimizer."""

from __future__ import annotations

import re
from collections.abc import Iterable

import tensorflow as tf

from open_seq2seq.optimizers.optimizer import Variables
from open_seq2seq.utils.errors import ConfigError


class WeightDecay:
    """Reduces weights independently of the gradient: ``w -= lr · decay · w`` (Loshchilov & Hutter 2019).

    Unlike an L2 penalty it does not pass through momentum, adaptive step sizes, clipping or LARC. As in AdamW it is
    multiplied by the learning rate.

    Args:
      decay: the factor, positive.
      exclude: regular expression; variables with a match anywhere in their name are left out.

    Raises:
      ConfigError: a decay out of range, or a malformed expression.
    """

    def __init__(self, decay: float, exclude: str | None = None) -> None:
        if not decay > 0.0:
            raise ConfigError([f"'decoupled_weight_decay' is {decay!r} but has to be positive; None is off."])
        self._decay = decay
        self._key = f"'decoupled_weight_decay_exclude' is {exclude!r}"
        try:
            self._exclude = re.compile(exclude) if exclude else None
        except re.error as error:
            raise ConfigError([f"{self._key}, which is no regular expression: {error}."]) from error
        self._names: frozenset[str] = frozenset()

    def build(self, names: Iterable[str]) -> None:
        """Chooses among the trainable variables.

        Raises:
          ConfigError: the expression matches none of them, or all.
        """
        names = list(names)
        kept = [name for name in names if self._exclude is None or not self._exclude.search(name)]
        if self._exclude is not None and len(kept) == len(names):
            raise ConfigError([f"{self._key}, but no variable's name has a match; names are like '{names[0]}'."])
        if not kept:
            raise ConfigError([f"{self._key}, which leaves no variable to decay: leave out both parameters."])
        self._names = frozenset(kept)

    def apply(self, names: Iterable[str], variables: Variables, learning_rate: tf.Tensor) -> None:
        """Decays the named variables, except excluded ones."""
        for name in names:
            if name in self._names:
                # Not w · (1 - lr · decay), because the factor would have the same rounding error for all weights.
                variables[name].assign_sub(learning_rate * self._decay * variables[name])
