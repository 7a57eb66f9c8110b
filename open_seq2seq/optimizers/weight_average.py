"""Exponential moving average of the weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import tensorflow as tf

from open_seq2seq.optimizers.optimizer import Variables
from open_seq2seq.utils.errors import ConfigError


class WeightAverage:
    """FP32 mean of the weights over past updates (Polyak & Juditsky 1992), exponentially weighted.

    After update n, from 0: ``a = d·a + (1-d)·w`` with ``d = min(decay, (1+n) / (10+n))``. A constant decay would keep a
    share ``decay^n`` of the random initial weights: 37 % after 1,000 updates with 0.999. A bias correction as in Adam
    would give all early updates the same weight; the increasing decay averages over the last tenth of them instead.

    Args:
      decay: share of the average that is kept at each update, between 0 and 1.

    Raises:
      ConfigError: a decay out of range.
    """

    def __init__(self, decay: float) -> None:
        if not 0.0 < decay < 1.0:
            raise ConfigError([f"'ema_decay' is {decay!r} but has to be between 0 and 1, like 0.999; None is off."])
        self._decay = decay
        self.weights: Variables = {}

    def build(self, variables: Variables) -> None:
        """Makes the averages, equal to the variables as they are now."""
        self.weights = {name: tf.Variable(variable.read_value(), trainable=False)
                        for name, variable in variables.items()}

    def update(self, variables: Variables, update_index: tf.Tensor) -> None:
        """Takes in the weights after an update.

        Args:
          update_index: int64 scalar, how many updates were made before this one.
        """
        count = tf.cast(update_index, tf.float32)
        share = tf.maximum(1.0 - self._decay, 9.0 / (10.0 + count))  # 1 - d, without its rounding
        for name, average in self.weights.items():
            # average -= share · (average - w), in place.
            tf.raw_ops.ResourceApplyGradientDescent(var=average.handle, alpha=share, delta=average - variables[name])


@contextlib.contextmanager
def exchanged(variables: Mapping[str, tf.Variable], others: Mapping[str, tf.Variable]) -> Iterator[None]:
    """Within this context, variables of equal name have each other's values.

    It needs the memory of one variable, and restores the exact values.
    """
    _exchange(variables, others)
    try:
        yield
    finally:
        _exchange(variables, others)


def _exchange(variables: Mapping[str, tf.Variable], others: Mapping[str, tf.Variable]) -> None:
    for name, other in others.items():
        value = tf.identity(variables[name])
        variables[name].assign(other)
        other.assign(value)
