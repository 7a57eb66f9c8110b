"""An investigated divergence: its symptom, the examples and variables involved, and the likely cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.data.static_shapes import EMPTY_ID
from open_seq2seq.optimizers.mixed_precision import MixedPrecisionOptimizer
from open_seq2seq.training.loop.diagnosis import Diagnosis, Examiner
from open_seq2seq.training.loop.divergence import Divergence, listed
from open_seq2seq.training.recovery.good_state import START, GoodState, Tried


@dataclass(frozen=True)
class Counters:
    """The optimizer's counters right after the update that diverged.

    Attributes:
      updates: number of updates made.
      skipped: number of updates skipped.
      overflows: number of updates whose gradients were not finite.
      rate_factor: factor on the schedule's learning rate.
    """

    updates: int
    skipped: int
    overflows: int
    rate_factor: float

    @classmethod
    def after(cls, divergence: Divergence, optimizer: MixedPrecisionOptimizer) -> Counters:
        """Reads the counters, and subtracts the update that may have been made before the divergence was noticed."""
        later = divergence.later
        applied = later is not None and bool(later.results["applied"])
        skipped = later is not None and not applied
        return cls(int(optimizer.updates.numpy()) - applied, int(optimizer.skipped.numpy()) - skipped,
                   int(optimizer.overflows.numpy()) - skipped, float(optimizer.rate_factor.numpy()))


@dataclass(frozen=True)
class SuspectBatch:
    """A micro-batch of the update that diverged, and the diagnosis from running it again.

    Attributes:
      batch: the micro-batch, as NumPy arrays.
      micro_batch: index of the micro-batch since the start of training.
      carried: states ``[rows, …]`` that the model continued from, by path.
      loss_scale: loss scale of the update.
      found: diagnosis with the weights that the run had when the divergence was noticed.
    """

    batch: dict[str, Any]
    micro_batch: int
    carried: Mapping[str, np.ndarray]
    loss_scale: float
    found: Diagnosis

    def loss_with(self, examiner: Examiner) -> float:
        """Returns the loss with the current weights, or inf if running the batch finds anything non-finite."""
        examination = examiner.examine(self.batch, self.micro_batch, self.loss_scale, self.carried)
        return examination.loss if examination.finite else float("inf")

    def examples(self, describe: Callable[[int], str]) -> list[str]:
        """Returns descriptions of the examples whose loss is not finite or, if none is known, of all examples.

        Args:
          describe: function that returns the file and line of the example with a given index.
        """
        ids = self.batch["ids"]
        rows = [row for row in self.found.rows or range(len(ids)) if ids[row] != EMPTY_ID]
        numbered = np.issubdtype(np.asarray(ids).dtype, np.integer)
        return [str(describe(int(ids[row])) if numbered else ids[row]) for row in rows]


@dataclass(frozen=True)
class Incident:
    """A divergence that has been investigated.

    Attributes:
      divergence: the divergence that the detector raised.
      counters: the optimizer's counters after the update that diverged.
      suspect: the micro-batch that is likely to be the cause.
      examples: the suspect examples of this micro-batch, usually as file and line.
      newest: the newest state to go back to, or None.
    """

    divergence: Divergence
    counters: Counters
    suspect: SuspectBatch
    examples: list[str]
    newest: GoodState | None

    @property
    def step(self) -> int:
        """Number of attempted updates, including the one that diverged."""
        return self.divergence.attempt.step

    def summary(self, target: GoodState | None) -> dict[str, Any]:
        """Returns a JSON-serialisable summary, which is stored in all later checkpoints.

        Args:
          target: the state that the run goes back to; None if it stops.

        Returns:
          A dict: ``step`` and ``updates`` have the numbers of attempted and of applied updates, ``reason`` the symptom,
          ``target_step`` the step of ``target``, and ``lost`` the number of updates that going back to it undoes.
        """
        return {"step": self.step, "updates": self.counters.updates, "reason": self.divergence.reason,
                "target_step": None if target is None else target.step,
                "lost": 0 if target is None else self.counters.updates - target.updates}

    def details(self) -> dict[str, Any]:
        """Returns the JSON-serialisable details that are stored with the batch, for replaying it."""
        attempt, findings = self.divergence.attempt, self.suspect.found
        return {"checkpoint": None if self.newest is None else self.newest.name,
                "micro_batch": self.suspect.micro_batch, "loss_scale": self.suspect.loss_scale,
                "learning_rate": attempt.number("learning_rate"), "loss": str(attempt.number("loss")),
                "ids": np.asarray(self.suspect.batch["ids"]).tolist(), "examples": self.examples,
                "nonfinite_inputs": findings.inputs, "nonfinite_variables": findings.values,
                "nonfinite_gradients": findings.gradients}

    def lines(self, tried: Tried | None, folder: Path | None) -> Iterator[str]:
        """Yields lines for the log.

        Args:
          tried: the state that the run goes back to, with the loss of the batch; None if the run stops.
          folder: folder in which the batch was saved, or None.
        """
        findings = self.suspect.found
        which = "Examples whose loss is not finite" if findings.rows else "Examples of the batch"
        yield f"{which}: {listed(self.examples)}"
        if findings.finite:
            yield "When run again with the current weights, the batch gives neither inf nor NaN."
        for what, names in (("arrays of the batch", findings.inputs), ("variables", findings.values),
                            (f"gradients ({len(findings.gradients)} of {findings.num_gradients})", findings.gradients)):
            if names:
                yield f"Non-finite {what}: {listed(names)}"
        if tried is not None and tried.finite:
            yield (f"With the weights of {tried.state.name}, the batch gives a finite loss ({tried.loss:.4g}): the "
                   "weights had diverged.")
        elif tried is not None:
            yield (f"With the weights of {tried.state.name}, the batch gives inf or NaN, too: check these examples and "
                   "the precision.")
        if folder is not None:
            yield f"The batch is saved in {folder}; scripts/replay_batch.py runs it again."

    def title(self) -> str:
        """Returns a description in one line."""
        return f"DIVERGED at step {self.step}, after {self.counters.updates} updates: {self.divergence.reason}."

    def verdict(self, problem: str | None, saves: bool, folder: Path | None) -> str:
        """Returns the error message of a run that stops.

        Args:
          problem: why the run cannot recover, as a clause; None if it stops only because recovery is disabled.
          saves: whether the run writes checkpoints.
          folder: folder in which the batch was saved, or None.
        """
        why = f" The run cannot recover by itself, because {problem}." if problem else ""
        saved = saves and self.newest is not None and self.newest.name != START
        onward = f"resume from {self.newest.name} with --continue_learning" if saved and self.newest else "start again"
        other = "" if problem else ", perhaps with on_divergence=roll_back"
        where = f" The batch is saved in {folder}." if folder is not None else ""
        return (f"Training diverged at step {self.step}: {self.divergence.reason}, on {listed(self.examples)}.{why} "
                f"Lower the learning rate, or correct or leave out these examples, and {onward}{other}.{where}")
