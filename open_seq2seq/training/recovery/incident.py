"""One divergence: what was seen, which examples and variables are involved, and what is likely to be at fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.data.static_batches import EMPTY_ID
from open_seq2seq.optimizers.mixed_precision import MixedPrecisionOptimizer
from open_seq2seq.training.recovery.diagnosis import Diagnosis, Examiner
from open_seq2seq.training.recovery.divergence import Divergence, listed
from open_seq2seq.training.recovery.good_state import START, GoodState, Tried


@dataclass(frozen=True)
class Counters:
    """The optimizer's counters right after the update that diverged.

    Attributes:
      updates: updates made.
      skipped: updates skipped.
      overflows: updates whose gradients were not finite.
      rate_factor: what the schedule's rate was multiplied by.
    """

    updates: int
    skipped: int
    overflows: int
    rate_factor: float

    @classmethod
    def after(cls, divergence: Divergence, optimizer: MixedPrecisionOptimizer) -> Counters:
        """Reads them; an update that was made before the divergence was noticed is not counted."""
        later = divergence.later
        applied = later is not None and bool(later.results["applied"])
        skipped = later is not None and not applied
        return cls(int(optimizer.updates.numpy()) - applied, int(optimizer.skipped.numpy()) - skipped,
                   int(optimizer.overflows.numpy()) - skipped, float(optimizer.rate_factor.numpy()))


@dataclass(frozen=True)
class SuspectBatch:
    """A micro-batch of the update that diverged, and what running it again found.

    Attributes:
      batch: NumPy arrays.
      micro_batch: its number since the start of training.
      carried: the states that the model continued from ``[rows, …]``, by path.
      loss_scale: of the update.
      found: with the weights that the divergence left.
    """

    batch: dict[str, Any]
    micro_batch: int
    carried: Mapping[str, np.ndarray]
    loss_scale: float
    found: Diagnosis

    def loss_with(self, examiner: Examiner) -> float:
        """Returns its loss with the present weights; inf where the loss or a gradient is not finite."""
        found = examiner.examine(self.batch, self.micro_batch, self.loss_scale, self.carried)
        return found.loss if found.finite else float("inf")

    def examples(self, describe: Callable[[int], str]) -> list[str]:
        """Returns the examples whose loss is not finite, or all of the batch where that is not known.

        Args:
          describe: example number → file and line.
        """
        ids = self.batch["ids"]
        rows = [row for row in self.found.rows or range(len(ids)) if ids[row] != EMPTY_ID]
        numbered = np.issubdtype(np.asarray(ids).dtype, np.integer)
        return [str(describe(int(ids[row])) if numbered else ids[row]) for row in rows]


@dataclass(frozen=True)
class Incident:
    """A divergence that has been investigated.

    Attributes:
      divergence: what the detector saw.
      counters: of the optimizer.
      suspect: the micro-batch that is likely to be at fault.
      examples: its examples, as file and line.
      newest: the newest state to go back to; None without one.
    """

    divergence: Divergence
    counters: Counters
    suspect: SuspectBatch
    examples: list[str]
    newest: GoodState | None

    @property
    def step(self) -> int:
        """Updates attempted, the bad one included."""
        return self.divergence.attempt.step

    def summary(self, target: GoodState | None) -> dict[str, Any]:
        """Returns what every later checkpoint keeps of it: JSON.

        Args:
          target: the state that the run goes back to.
        """
        return {"step": self.step, "updates": self.counters.updates, "reason": self.divergence.reason,
                "target_step": None if target is None else target.step,
                "lost": 0 if target is None else self.counters.updates - target.updates}

    def details(self) -> dict[str, Any]:
        """Returns what is kept beside the batch, so that it can be run again: JSON."""
        attempt, found = self.divergence.attempt, self.suspect.found
        return {"checkpoint": None if self.newest is None else self.newest.name,
                "micro_batch": self.suspect.micro_batch, "loss_scale": self.suspect.loss_scale,
                "learning_rate": attempt.number("learning_rate"), "loss": str(attempt.number("loss")),
                "ids": np.asarray(self.suspect.batch["ids"]).tolist(), "examples": self.examples,
                "nonfinite_inputs": found.inputs, "nonfinite_variables": found.values,
                "nonfinite_gradients": found.gradients}

    def lines(self, tried: Tried | None, folder: Path | None) -> Iterator[str]:
        """Yields what the log says.

        Args:
          tried: the state that was chosen, with the loss of the batch; None where the run stops.
          folder: where the batch is kept, if it is.
        """
        found = self.suspect.found
        which = "Examples whose loss is not finite" if found.rows else "Examples of the batch"
        yield f"{which}: {listed(self.examples)}"
        if found.finite:
            yield "Run again now, the batch is finite."
        for what, names in (("arrays of the batch", found.inputs), ("variables", found.values),
                            (f"gradients ({len(found.gradients)} of {found.num_gradients})", found.gradients)):
            if names:
                yield f"Non-finite {what}: {listed(names)}"
        if tried is not None and tried.finite:
            yield (f"With the weights of {tried.state.name} the batch is finite (loss {tried.loss:.4g}): the weights "
                   "had gone astray.")
        elif tried is not None:
            yield (f"With the weights of {tried.state.name} the batch is not finite either: look at these examples, "
                   "and at the arithmetic.")
        if folder is not None:
            yield f"The batch is kept in {folder}; scripts/replay_batch.py runs it again."

    def title(self) -> str:
        """Returns what happened, in one line."""
        return f"DIVERGED at step {self.step}, after {self.counters.updates} updates: {self.divergence.reason}."

    def verdict(self, problem: str | None, saves: bool, folder: Path | None) -> str:
        """Returns the sentence that a stopped run ends with.

        Args:
          problem: why the run cannot recover by itself, if it was to.
          saves: whether the run writes checkpoints.
          folder: where the batch is kept, if it is.
        """
        why = f" and cannot recover by itself, because {problem}" if problem else ""
        saved = saves and self.newest is not None and self.newest.name != START
        onward = f"resume from {self.newest.name} with --continue_learning" if saved and self.newest else "start again"
        other = "" if problem else ", perhaps with on_divergence=roll_back"
        where = f" The batch is kept in {folder}." if folder is not None else ""
        return (f"The training diverged at step {self.step}{why}: {self.divergence.reason}, on "
                f"{listed(self.examples)}. Lower the learning rate, or correct or leave out these examples, and "
                f"{onward}{other}.{where}")
