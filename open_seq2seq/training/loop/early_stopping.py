"""Ends training once several evaluations in a row have not improved on the best result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from open_seq2seq.checkpoints.run_saver import value_of


class EarlyStopping:
    """Decides after each evaluation whether training ends.

    Args:
      params: the model's parameters, of which ``stop_after_evals_without_gain``, ``best_metric`` and
        ``best_metric_mode`` are used.

    Attributes:
      metric: name of the metric that is compared, ``best_metric``.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._most = params["stop_after_evals_without_gain"]
        self.metric = params["best_metric"]
        self._sign = 1.0 if params["best_metric_mode"] == "max" else -1.0
        self._values: dict[int, float] = {}

    def resume(self, values: Mapping[int, float]) -> None:
        """Sets the results of the evaluations that the run has made so far, by step."""
        self._values = dict(sorted(values.items()))

    def rewind(self, step: int) -> None:
        """Forgets the evaluations after ``step``, from which training continues."""
        self._values = {at: value for at, value in self._values.items() if at <= step}

    def awaits(self, step: int) -> bool:
        """Returns whether an evaluation after this step would count and has not been made."""
        return self._most is not None and step > 0 and step not in self._values

    def observe(self, step: int, metrics: Mapping[str, float]) -> None:
        """Records the result of an evaluation.

        Raises:
          ConfigError: ``best_metric`` is not among the metrics.
        """
        if self._most is not None:
            self._values[step] = value_of(self.metric, metrics)

    @property
    def best(self) -> tuple[int, float] | None:
        """(step, value) of the best evaluation so far, the first of equal ones; None without one. NaN is left out."""
        scores = {step: self._sign * value for step, value in self._values.items() if value == value}
        step = max(scores, key=lambda at: (scores[at], -at)) if scores else None
        return None if step is None else (step, self._values[step])

    @property
    def has_ended(self) -> bool:
        """Whether at least ``stop_after_evals_without_gain`` evaluations have followed the best one.

        False if this parameter is None.
        """
        best = self.best
        since = len(self._values) if best is None else sum(step > best[0] for step in self._values)
        return self._most is not None and since >= self._most

    def __str__(self) -> str:
        best = "" if self.best is None else f"; the best was {self.best[1]:.4f} at step {self.best[0]}"
        return f"{self._most} evaluations in a row brought no gain in {self.metric}{best}"
