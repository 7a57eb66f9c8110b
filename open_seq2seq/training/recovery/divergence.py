"""Detecting that a training has diverged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

# How many first losses others are compared with, and how many in a row have to be far above them.
FIRST_UPDATES = LASTING_UPDATES = 10
_LOOKED_AT = ("loss", "finite_loss", "applied", "loss_scale", "learning_rate")


@dataclass(frozen=True)
class Attempt:
    """One attempted update.

    Attributes:
      step: how many updates had been attempted, this one included.
      batches: its micro-batches, NumPy.
      results: what the step returned: tensors, not fetched.
    """

    step: int
    batches: list[dict[str, Any]]
    results: dict[str, Any]

    def number(self, name: str) -> float:
        """Returns one of the results as a number; waits for the device."""
        return float(self.results[name])


class Divergence(Exception):
    """The training cannot continue from here: raised between updates, handled by ``Recovery``.

    Attributes:
      attempt: the update that showed it.
      reason: what was seen, in words.
      later: the update after it, where that was made before the results were examined.
    """

    def __init__(self, attempt: Attempt, reason: str, later: Attempt | None = None) -> None:
        super().__init__(reason)
        self.attempt, self.reason, self.later = attempt, reason, later


class LossLevel:
    """Detects finite losses that stay far above the first ones of a run.

    A single outlier is not divergence, nor is any loss where the first ones were not positive.

    Args:
      factor: how many times the least of the first losses is too high; None switches the detection off.
    """

    def __init__(self, factor: float | None) -> None:
        self._factor = factor
        self._first: list[float] = []
        self._high = 0

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint keeps: JSON."""
        return {"first": list(self._first), "high_in_a_row": self._high}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Restores what ``state`` returned."""
        self._first, self._high = list(state.get("first", ())), int(state.get("high_in_a_row", 0))

    def forget(self) -> None:
        """Forgets high losses, but not the first ones of the run."""
        self._high = 0

    def problem(self, loss: float) -> str | None:
        """Takes the next loss; returns what is wrong with it, as a clause, or None."""
        if self._factor is None:
            return None
        least = min(self._first, default=loss)
        if len(self._first) < FIRST_UPDATES:
            self._first.append(loss)
        self._high = self._high + 1 if least > 0.0 and loss > self._factor * least else 0
        if self._high < LASTING_UPDATES:
            return None
        return (f"the loss is {loss:.4g}, and has been over {self._factor:g} times that of the first updates "
                f"({least:.4g}) for {self._high} updates")


class DivergenceDetector:
    """Examines the results of each step, one step late.

    A step's results are there when the next step has been handed to the device, so that reading
    them does not wait. Nothing is lost by the delay: an update with non-finite gradients is
    skipped on the device, and the recovery goes back to the step in question (``Attempt.step``).

    Args:
      max_skipped_updates: how many updates skipped in a row mean divergence.
      loss_factor: see ``LossLevel``.

    Attributes:
      skipped_in_a_row: how many of the last updates were skipped; a checkpoint keeps it.
      level: detects losses that stay too high; a checkpoint keeps its state.
    """

    def __init__(self, max_skipped_updates: int, loss_factor: float | None = None) -> None:
        self._max_skipped = max_skipped_updates
        self.skipped_in_a_row = 0
        self.level = LossLevel(loss_factor)
        self._unseen: Attempt | None = None
        self._last: Attempt | None = None

    def observe(self, step: int, batches: list[dict[str, Any]], results: Mapping[str, Any]) -> None:
        """Takes a step's results, and examines those of the step before.

        Raises:
          Divergence: the step before diverged.
        """
        before = self._unseen
        self._last = self._unseen = Attempt(step, batches, {name: results[name] for name in _LOOKED_AT})
        if before is not None:
            self._judge(before, self._last)

    def settle(self, variables: Mapping[str, tf.Variable]) -> None:
        """Examines the last step and the variables; to be called before this state is saved or used.

        Args:
          variables: weights and what the optimizer keeps; all of them have to be finite.

        Raises:
          Divergence: the last step, or a variable, is not finite.
        """
        before, self._unseen = self._unseen, None
        if before is not None:
            self._judge(before)
        if self._last is not None and (names := nonfinite(variables)):
            raise Divergence(self._last, f"the update left inf or NaN in {listed(names)}")

    def forget(self) -> None:
        """Forgets the last steps, after the run has been put elsewhere."""
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
    """Returns the names of the floating-point variables that hold inf or NaN."""
    flags = {name: tf.reduce_all(tf.math.is_finite(variable)) for name, variable in variables.items()
             if variable.dtype.is_floating}
    return [name for name, finite in flags.items() if not finite]


def listed(names: list[str], shown: int = 3) -> str:
    """Returns the first of some names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
