"""One divergence: what was seen, which examples and variables were involved, what may be to blame."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.static_batches import EMPTY_ID
from open_seq2seq.optimizers.dtype import precision_of
from open_seq2seq.parts.precision import KINDS
from open_seq2seq.training.precision.choice import choice_of
from open_seq2seq.training.recovery.diagnosis import Diagnosis
from open_seq2seq.training.recovery.divergence import Divergence, listed
from open_seq2seq.training.recovery.good_state import START, GoodState, pick_state
from open_seq2seq.training.recovery.kept_batch import write_batch
from open_seq2seq.training.run.logdir import DIVERGENCE
from open_seq2seq.utils.console import deco_print

if TYPE_CHECKING:
    from open_seq2seq.training.loop.trainer import Trainer


class Incident:
    """A divergence under investigation.

    Args:
      trainer: as the divergence left it.
      divergence: what the detector saw.

    Attributes:
      step: attempted updates, the bad one included.
      updates: updates made up to there.
      skipped: updates skipped up to there.
      overflows: updates up to there whose gradients were not finite.
      rate_factor: what the schedule's rate was multiplied by.
      newest: the newest state to go back to; None without one.
    """

    def __init__(self, trainer: Trainer, divergence: Divergence) -> None:
        self._trainer, self._divergence = trainer, divergence
        attempt, optimizer = divergence.attempt, trainer.optimizer
        self.step = attempt.step
        # The step after it may have been made before anyone looked; it is taken back.
        later = divergence.later
        applied = later is not None and bool(later.results["applied"])
        self.updates = int(optimizer.updates.numpy()) - applied
        undone = later is not None and not applied
        self.skipped = int(optimizer.skipped.numpy()) - undone
        self.overflows = int(optimizer.overflows.numpy()) - undone
        self.rate_factor = float(optimizer.rate_factor.numpy())
        self.newest: GoodState | None = None
        self._batch: dict[str, Any] = attempt.batches[-1]
        self._micro_batch = -1
        self._carried: dict[str, np.ndarray] = {}
        self._found = Diagnosis(float("nan"))
        self._examples: list[str] = []
        self._tried: tuple[GoodState, float] | None = None
        self._folder: Path | None = None

    def examine(self) -> None:
        """Runs the micro-batches again with the present weights until one is not finite."""
        attempt, runner, offset = self._divergence.attempt, self._trainer.runner, self._trainer.offset
        for number, batch in enumerate(attempt.batches, (self.step - 1) * len(attempt.batches)):
            self._batch = batch
            consumed, replica = divmod(number, runner.local_replicas)
            self._micro_batch = offset + consumed * runner.world_size + runner.replica_rank + replica
            self._carried = self._trainer.carried.before(self._micro_batch)
            self._found = self._examine()
            if not self._found.finite:
                break
        ids = self._batch["ids"]
        self._examples = [self._describe(ids[row])
                          for row in self._found.rows or range(len(ids)) if ids[row] != EMPTY_ID]

    def _describe(self, example: Any) -> str:
        numbered = np.issubdtype(np.asarray(example).dtype, np.integer)
        return str(self._trainer.model.data_layer.describe_example(int(example)) if numbered else example)

    def _examine(self) -> Diagnosis:
        return self._trainer.examiner.examine(self._batch, self._micro_batch,
                                              self._divergence.attempt.number("loss_scale"), self._carried)

    def choose(self, older: Iterator[GoodState], events: Sequence[Mapping[str, Any]]) -> GoodState:
        """Returns the state to go back to: the newest, or one before that; see ``pick_state``.

        Args:
          older: the states before the newest, in that order.
          events: of the divergences before.
        """
        assert self.newest is not None
        last: Mapping[str, Any] = events[-1] if events else {}
        again = bool(last) and self.updates <= last["updates"] + last["lost"]
        # A batch that holds NaN says nothing about weights.
        candidates = itertools.chain([self.newest], () if self._found.inputs else older)
        self._tried = pick_state(((state, self._loss_with(state)) for state in candidates),
                                 before=last["target_step"] if again else None)
        return self._tried[0]

    def _loss_with(self, state: GoodState) -> float:
        """Returns the batch's loss with the weights of a state; inf where it, or a gradient, is not finite."""
        state.put_into(self._trainer)
        found = self._examine()
        return found.loss if found.finite else float("inf")

    def summary(self, target: GoodState | None) -> dict[str, Any]:
        """Returns what every later checkpoint remembers of it: JSON.

        Args:
          target: what the run goes back to.
        """
        return {"step": self.step, "updates": self.updates, "reason": self._divergence.reason,
                "target_step": None if target is None else target.step,
                "lost": 0 if target is None else self.updates - target.updates}

    def keep(self, event: Mapping[str, Any]) -> None:
        """Writes the batch and everything known about it, where the run has a folder."""
        trainer, attempt = self._trainer, self._divergence.attempt
        if trainer.saver is None or not trainer.runner.is_chief:
            return
        details = {**event, "checkpoint": None if self.newest is None else self.newest.name, "seed": trainer.seed,
                   "micro_batch": self._micro_batch, "dtype": _type_name(trainer),
                   "mixed_choice": choice_of(trainer.model.params),
                   "loss_scale": attempt.number("loss_scale"), "learning_rate": attempt.number("learning_rate"),
                   "loss": str(attempt.number("loss")), "ids": np.asarray(self._batch["ids"]).tolist(),
                   "examples": self._examples, "nonfinite_inputs": self._found.inputs,
                   "nonfinite_variables": self._found.values, "nonfinite_gradients": self._found.gradients}
        folder = trainer.saver.directory / DIVERGENCE / f"step-{self.step}"
        try:
            self._folder = write_batch(folder, self._batch, details, trainer.saver.config_yaml, self._carried)
        except OSError as error:
            deco_print(f"WARNING: the batch could not be kept in {folder}: {error.strerror}.")

    @property
    def is_finite(self) -> bool:
        """Whether the batch, run again, showed nothing."""
        return self._found.finite

    @property
    def title(self) -> str:
        """What happened, in one line."""
        return f"DIVERGED at step {self.step}, after {self.updates} updates: {self._divergence.reason}."

    def lines(self) -> Iterator[str]:
        """Yields what is known, for the log, besides the title."""
        found = self._found
        who = "Examples whose loss is not finite" if found.rows else "Examples of the batch"
        yield f"{who}: {listed(self._examples)}"
        if found.finite:
            yield "Run again now, the batch is finite."
        for what, names in (("arrays of the batch", found.inputs), ("variables", found.values),
                            (f"gradients ({len(found.gradients)} of {found.num_gradients})", found.gradients)):
            if names:
                yield f"Non-finite {what}: {listed(names)}"
        if self._tried is not None:
            state, loss = self._tried
            yield (f"With the weights of {state.name} " +
                   (f"the batch is finite (loss {loss:.4g}): the weights had gone astray." if loss < float("inf") else
                    "the batch is not finite either: look at these examples, and at the arithmetic."))
        if self._folder is not None:
            yield f"The batch is kept in {self._folder}; scripts/replay_batch.py runs it again."

    def verdict(self, problem: str | None) -> str:
        """Returns the one sentence that a stopped run ends with."""
        why = f" and cannot recover by itself, as {problem}" if problem else ""
        saved = self._trainer.saver is not None and self.newest is not None and self.newest.name != START
        onward = (f"go on from {self.newest.name} by --continue_learning" if saved and self.newest  # (for mypy)
                  else "start again")
        other = "" if problem else ", perhaps with on_divergence=roll_back"
        where = f" The batch is kept in {self._folder}." if self._folder is not None else ""
        return (f"The training diverged at step {self.step}{why}: {self._divergence.reason}, on "
                f"{listed(self._examples)}. Lower the learning rate, or correct or leave out these examples, and "
                f"{onward}{other}.{where}")


def _type_name(trainer: Trainer) -> str:
    policy = precision_of(trainer.model.params)
    if policy.may_choose and 0 < len(policy.kinds) < len(KINDS):
        return policy.label  # with the choice beside it
    return "float32" if policy.compute == tf.float32 else f"mixed_{policy.compute.name}"
