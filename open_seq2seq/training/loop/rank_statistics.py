"""Replaces the moving averages of batch norm, which differ between ranks, by their mean over all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.runners.runner import Runner


class SharedStatistics:
    """The statistics of a model, such as the moving averages of batch norm: its FP32 variables that are not trainable.

    Args:
      variables: variables of the model, by name.
      runner: the run's runner.
    """

    def __init__(self, variables: Mapping[str, tf.Variable], runner: Runner) -> None:
        self._variables = {name: v for name, v in variables.items() if not v.trainable and v.dtype == tf.float32}
        self._runner = runner
        self._assign: Any = None

    def average(self) -> None:
        """Sets the statistics on all ranks to their mean; a collective operation if there are several ranks."""
        if self._runner.world_size > 1 and self._variables:
            if self._assign is None:
                self._assign = self._runner.compile(self._assign_means, [])
            self._assign()

    def _assign_means(self) -> None:
        values = {name: variable.read_value() for name, variable in self._variables.items()}
        sums = self._runner.reduce(values, "statistics", exact=True)
        for name, variable in self._variables.items():
            variable.assign(sums[name] / self._runner.world_size)
