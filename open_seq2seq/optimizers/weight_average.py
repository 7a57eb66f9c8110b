"""Exponential moving average, and arithmetic mean, of the weights over updates."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Mapping

import tensorflow as tf

from open_seq2seq.optimizers.optimizer import Variables
from open_seq2seq.utils.errors import ConfigError

MEAN_COUNT = "averaged_updates"
"""Name, in the optimizer's state, of the number of updates that a ``WeightMean`` covers."""
MEAN_TRIGGER = "average_trigger/"
"""Prefix of the names under which the optimizer's state holds the trigger of a ``TriggeredMean``."""
_LARGEST = tf.float32.max  # stands for an infinite or missing loss, because the state of a run must be finite


class WeightAverage:
    """Exponential moving average, in FP32, of the weights after each update (see Polyak & Juditsky 1992).

    After update n, counted from 0, ``a = d·a + (1-d)·w`` with ``d = min(decay, (1+n) / (10+n))``. A constant decay
    would keep the fraction ``decay^n`` of the random initial weights: 37 % after 1,000 updates with 0.999. With a bias
    correction as in Adam, all early updates would count equally. With the increasing decay, the average covers about
    the last tenth of the updates so far, until ``decay`` is reached.

    Args:
      decay: largest fraction of the average that is kept at an update, between 0 and 1.

    Attributes:
      weights: the averages, FP32 variables by the names of the trainable variables; empty before ``build``.

    Raises:
      ConfigError: the decay is out of range.
    """

    def __init__(self, decay: float) -> None:
        if not 0.0 < decay < 1.0:
            raise ConfigError(["'ema_decay' must be between 0 and 1, such as 0.999, or None to disable it; got "
                               f"{decay!r}."])
        self._decay = decay
        self.weights: Variables = {}

    def build(self, variables: Variables) -> None:
        """Creates the averages, initialised with the current values of the variables."""
        self.weights = {name: tf.Variable(variable.read_value(), trainable=False)
                        for name, variable in variables.items()}

    def restart(self, variables: Variables, names: Collection[str]) -> None:
        """Restarts the averages of the given names from the current values of the variables."""
        for name in names:
            self.weights[name].assign(variables[name])

    @property
    def has_begun(self) -> bool:
        """Whether the averages cover the weights after more than one update."""
        return True

    def state(self) -> Variables:
        """Returns the variables that are saved in checkpoints besides the averages, by name."""
        return {}

    def update(self, variables: Variables, update_index: tf.Tensor) -> None:
        """Updates the averages with the weights after an update.

        Args:
          variables: the variables by name, already updated.
          update_index: int64 scalar, number of updates made before this one.
        """
        share = self._share(update_index)
        for name, average in self.weights.items():
            # average -= share · (average - w), in place.
            tf.raw_ops.ResourceApplyGradientDescent(var=average.handle, alpha=share, delta=average - variables[name])

    def observe(self, step: int, loss: float) -> bool:
        """Records the validation loss after a step; returns whether averaging begins because of it."""
        return False

    def awaits(self, step: int) -> bool:
        """Returns whether ``observe`` should be called for a step, because averaging may begin with its loss."""
        return False

    def _share(self, update_index: tf.Tensor) -> tf.Tensor:
        """Returns the share of the new weights in the average, 1 - d, an FP32 scalar."""
        count = tf.cast(update_index, tf.float32)
        # 9 / (10 + n) is 1 - (1 + n) / (10 + n), without the rounding error of the subtraction.
        return tf.maximum(1.0 - self._decay, 9.0 / (10.0 + count))


class WeightMean(WeightAverage):
    """Arithmetic mean of the weights over the updates since a given one (averaged SGD, Polyak & Juditsky 1992).

    Before that update, the mean equals the current weights. The number of updates that the mean covers is counted
    instead of computed from ``start``, because a run may be resumed with a different ``start``, or from a checkpoint
    without a mean.

    Args:
      start: number of updates after which averaging begins.
    """

    def __init__(self, start: int) -> None:
        self._start = start
        self.weights = {}

    def build(self, variables: Variables) -> None:
        super().build(variables)
        self._count = tf.Variable(0, dtype=tf.int64, trainable=False)

    def restart(self, variables: Variables, names: Collection[str]) -> None:
        """Restarts the means of the given names from the current values of the variables.

        If a name is given, all other means restart at the next update, because all means share a count.
        """
        super().restart(variables, names)
        if names:
            self._count.assign(0)

    @property
    def has_begun(self) -> bool:
        return int(self._count.numpy()) > 1

    def state(self) -> Variables:
        return {MEAN_COUNT: self._count}

    def _averages(self, update_index: tf.Tensor) -> tf.Tensor:
        """Returns whether the mean keeps the weights of earlier updates, a bool scalar; if not, it starts anew."""
        return update_index > self._start

    def _share(self, update_index: tf.Tensor) -> tf.Tensor:
        """Counts this update, and returns the share of its weights in the mean: 1 / count, an FP32 scalar."""
        earlier = tf.where(self._averages(update_index), self._count.read_value(), 0)
        self._count.assign(earlier + 1)
        return 1.0 / tf.cast(earlier + 1, tf.float32)


class TriggeredMean(WeightMean):
    """Arithmetic mean of the weights since the validation loss stopped falling (Merity et al. 2018, algorithm 1).

    Averaging begins after the first evaluation whose loss is greater than the smallest loss of all earlier evaluations
    except the last ``patience`` ones, which are left out to make the trigger insensitive to noise.

    Args:
      patience: number of preceding evaluations that are left out of the comparison.
    """

    def __init__(self, patience: int) -> None:
        super().__init__(0)
        self._patience = patience

    def build(self, variables: Variables) -> None:
        super().build(variables)
        # The smallest of the older losses, followed by the last ``patience`` losses, the newest last.
        self._losses = tf.Variable(tf.fill([self._patience + 1], _LARGEST), trainable=False)
        self._has_begun = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)

    def state(self) -> Variables:
        return {**super().state(), MEAN_TRIGGER + "losses": self._losses, MEAN_TRIGGER + "has_begun": self._has_begun,
                MEAN_TRIGGER + "step": self._step}

    def awaits(self, step: int) -> bool:
        return not int(self._has_begun.numpy()) and step > int(self._step.numpy())

    def observe(self, step: int, loss: float) -> bool:
        if not self.awaits(step):
            return False
        best, *recent = self._losses.numpy().tolist()
        value = float(tf.constant(loss)) if math.isfinite(loss) else _LARGEST  # rounded to FP32, like the others
        begins = math.isfinite(loss) and value > best
        self._losses.assign([min(best, recent[0]), *recent[1:], value])
        self._step.assign(step)
        if begins:
            self._has_begun.assign(1)
            self._count.assign(0)
        return begins

    def _averages(self, update_index: tf.Tensor) -> tf.Tensor:
        return self._has_begun > 0


@contextlib.contextmanager
def exchanged(variables: Mapping[str, tf.Variable], others: Mapping[str, tf.Variable]) -> Iterator[None]:
    """Context manager that swaps the values of variables with the same name, and swaps them back on exit.

    This needs extra memory for only one variable, and restores the values exactly.
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
