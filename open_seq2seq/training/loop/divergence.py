"""Detects that a training run has diverged, and keeps the history of its divergences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

# Number of losses at the start of a run with which later losses are compared, and number of consecutive high losses
# that count as divergence.
FIRST_UPDATES = LASTING_UPDATES = 10
_LOOKED_AT = ("loss", "finite_loss", "applied", "loss_scale", "learning_rate")


@dataclass(frozen=True)
class Attempt:
    """One attempted update.

    Attributes:
      step: number of attempted updates, including this one.
      batches: micro-batches of the update, as NumPy arrays.
      results: results of the training step, as tensors that have not been fetched yet.
    """

    step: int
    batches: list[dict[str, Any]]
    results: dict[str, Any]

    def number(self, name: str) -> float:
        """Returns a result as a number; waits for the device."""
        return float(self.results[name])


class Divergence(Exception):
    """Training has diverged; raised between updates and handled by ``Recovery``.

    Attributes:
      attempt: the update that diverged.
      reason: the symptom, as a clause.
      later: the next update, if it was made before the results of ``attempt`` were examined; else None.
    """

    def __init__(self, attempt: Attempt, reason: str, later: Attempt | None = None) -> None:
        super().__init__(reason)
        self.attempt, self.reason, self.later = attempt, reason, later


class LossLevel:
    """Detects finite losses that stay far above the first ones of a run.

    Only ``LASTING_UPDATES`` high losses in a row count as divergence. If any of the first ``FIRST_UPDATES`` losses is
    not positive, nothing is detected.

    Args:
      factor: multiple of the lowest of the first losses above which a loss is too high; None disables the detection.
    """

    def __init__(self, factor: float | None) -> None:
        self._factor = factor
        self._first: list[float] = []
        self._high = 0

    def state(self) -> dict[str, Any]:
        """Returns the JSON-serialisable state for a checkpoint."""
        return {"first": list(self._first), "high_in_a_row": self._high}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Restores the result of ``state``."""
        self._first, self._high = list(state.get("first", ())), int(state.get("high_in_a_row", 0))

    def forget(self) -> None:
        """Forgets recent high losses, but not the first losses of the run."""
        self._high = 0

    def problem(self, loss: float) -> str | None:
        """Adds the next loss; returns what is wrong with it, as a clause, or None."""
        if self._factor is None:
            return None
        least = min(self._first, default=loss)
        if len(self._first) < FIRST_UPDATES:
            self._first.append(loss)
        self._high = self._high + 1 if least > 0.0 and loss > self._factor * least else 0
        if self._high < LASTING_UPDATES:
            return None
        return (f"the loss is {loss:.4g}, and has been more than {self._factor:g} times the lowest loss of the first "
                f"updates ({least:.4g}) for {self._high} updates")


class DivergenceDetector:
    """Examines the results of each step after the next step has been launched.

    By then the results are ready, so reading them does not wait for the device. The delay does no harm: an update with
    non-finite gradients is skipped on the device, and a recovery continues with the step after the one that diverged
    (``Attempt.step``), which discards the later update.

    Args:
      max_skipped_updates: number of consecutive skipped updates that mean divergence.
      loss_factor: see ``LossLevel``.

    Attributes:
      skipped_in_a_row: number of consecutive skipped updates so far; stored in checkpoints.
      level: detects losses that stay too high; stored in checkpoints.
    """

    def __init__(self, max_skipped_updates: int, loss_factor: float | None = None) -> None:
        self._max_skipped = max_skipped_updates
        self.skipped_in_a_row = 0
        self.level = LossLevel(loss_factor)
        self._unseen: Attempt | None = None
        self._last: Attempt | None = None

    def observe(self, step: int, batches: list[dict[str, Any]], results: Mapping[str, Any]) -> None:
        """Stores the results of a step, and examines those of the previous step.

        Raises:
          Divergence: the previous step diverged.
        """
        before = self._unseen
        self._last = self._unseen = Attempt(step, batches, {name: results[name] for name in _LOOKED_AT})
        if before is not None:
            self._judge(before, self._last)

    def settle(self, variables: Mapping[str, tf.Variable]) -> None:
        """Examines the last step and the variables; must be called before the variables are saved or used.

        Args:
          variables: the weights and the optimizer's variables.

        Raises:
          Divergence: the last step diverged, or a variable is not finite.
        """
        before, self._unseen = self._unseen, None
        if before is not None:
            self._judge(before)
        if self._last is not None and (names := nonfinite(variables)):
            raise Divergence(self._last, f"the update left inf or NaN in {listed(names)}")

    def forget(self) -> None:
        """Forgets the last steps; to be called after the run's state has been replaced."""
        self._unseen = self._last = None
        self.skipped_in_a_row = 0
        self.level.forget()

    def _judge(self, attempt: Attempt, later: Attempt | None = None) -> None:
        self.skipped_in_a_row = 0 if attempt.results["applied"] else self.skipped_in_a_row + 1
        if not attempt.results["finite_loss"]:
            raise Divergence(attempt, "the loss is not finite", later)
        if self.skipped_in_a_row >= self._max_skipped:
            raise Divergence(attempt, f"{self.skipped_in_a_row} updates in a row were skipped, because their gradients "
                                      "were not finite", later)
        if problem := self.level.problem(attempt.number("loss")):
            raise Divergence(attempt, problem, later)


def nonfinite(variables: Mapping[str, tf.Variable]) -> list[str]:
    """Returns the names of the floating-point variables that contain inf or NaN."""
    flags = {name: tf.reduce_all(tf.math.is_finite(variable)) for name, variable in variables.items()
             if variable.dtype.is_floating}
    return [name for name, finite in flags.items() if not finite]


def listed(names: list[str], shown: int = 3) -> str:
    """Joins the first names with commas, and adds the number of those left out."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


class DivergenceHistory:
    """A run's divergence detector, and its divergences so far.

    Args:
      params: the model's parameters, of which ``max_skipped_updates`` and ``divergence_loss_factor`` are used.
      longest_search: maximum number of consecutive updates that the loss scaler skips while it searches for a scale;
        these do not count as divergence.

    Attributes:
      detector: examines the results of each step.
      events: the divergences of this run, including those before it was resumed, as JSON-serialisable dicts.
      lowered_to: the dtype that a recovery chose; None if the config's dtype is in use.
    """

    def __init__(self, params: Mapping[str, Any], longest_search: int = 0) -> None:
        self.detector = DivergenceDetector(max(params["max_skipped_updates"], longest_search + 1),
                                           params["divergence_loss_factor"])
        self.events: list[dict[str, Any]] = []
        self.lowered_to: str | None = None

    def state(self) -> dict[str, Any]:
        """Returns the entry for a checkpoint's ``state.json``."""
        return {"events": list(self.events), "dtype": self.lowered_to,
                "skipped_in_a_row": self.detector.skipped_in_a_row, "losses": self.detector.level.state()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Restores the result of ``state``; ``{}`` begins anew."""
        self.detector.forget()
        self.events = list(state.get("events", ()))
        self.lowered_to = state.get("dtype")
        self.detector.skipped_in_a_row = int(state.get("skipped_in_a_row", 0))
        self.detector.level.resume(state.get("losses", {}))
