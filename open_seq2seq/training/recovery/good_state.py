"""States that a run can go back to: its checkpoints, or its start."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from open_seq2seq.checkpoints import assign_matching, load_checkpoint
from open_seq2seq.checkpoints.run_variables import RunVariables
from open_seq2seq.checkpoints.state import AVERAGE
from open_seq2seq.checkpoints.writing import copies
from open_seq2seq.optimizers.weight_average import MEAN_COUNT, MEAN_TRIGGER
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError

START = "the start"


@dataclass(frozen=True)
class GoodState:
    """Weights, optimizer variables and carried states, in host memory.

    Attributes:
      name: name for messages, which is that of the checkpoint's folder, or ``START``.
      step: number of updates attempted before the state was taken.
      weights: weights by variable name.
      optimizer: slots, counters, loss scale and averages of the weights, by name.
      carried: states that the model carries from batch to batch, of all replicas, by path.
    """

    name: str
    step: int
    weights: Mapping[str, np.ndarray]
    optimizer: Mapping[str, np.ndarray]
    carried: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def take(cls, name: str, step: int, variables: RunVariables) -> GoodState:
        """Copies the current state; a collective operation if the model carries state."""
        return cls(name, step, copies(variables.weights), copies(variables.optimizer.state()),
                   variables.carried.gather())

    @property
    def updates(self) -> int:
        """Number of updates made before the state was taken."""
        return int(self.optimizer["updates"])

    def put_into(self, variables: RunVariables) -> None:
        """Assigns each value to the variable of the same name and shape.

        Other variables are left unchanged, for instance those that only another loss scaler has. However, averages of
        the weights that this state lacks, or whose counters it lacks, restart from the assigned weights, and all
        carried states are set to zero if their number of slots or any of their shapes differs.
        """
        assign_matching(variables.weights, self.weights)
        # If the number of ranks has changed, earlier checkpoints have another number of slots.
        variables.carried.assign_fitting(self.carried)
        optimizer = variables.optimizer
        report = assign_matching(optimizer.state(), self.optimizer)
        # Without its counters, as in a checkpoint of a run with another kind of average, a mean has to start anew.
        lacks_counters = any(name.startswith((MEAN_COUNT, MEAN_TRIGGER)) for name in report.missing)
        averages = [name for name in optimizer.averaged_weights if lacks_counters or AVERAGE + name in report.missing]
        optimizer.restart_average(variables.trainable, averages)


class Tried(NamedTuple):
    """A state, and the loss of the suspect batch with its weights; the loss is inf if any value is not finite."""

    state: GoodState
    loss: float

    @property
    def finite(self) -> bool:
        """Whether the loss is finite with these weights."""
        return math.isfinite(self.loss)

    def is_astray(self, older: Tried) -> bool:
        """Returns whether this state was already diverging: its (positive) loss is more than twice an older state's."""
        return older.finite and self.loss - older.loss > abs(older.loss)


def good_states(checkpoints: Iterable[tuple[int, Path]], last_step: int, start: GoodState | None,
                ) -> Iterator[GoodState]:
    """Yields the states to go back to, the newest first; checkpoints are read lazily.

    Checkpoints that are damaged (which is reported) or whose weights are not finite are left out.

    Args:
      checkpoints: (step, folder) of the run's regular checkpoints, the newest first.
      last_step: checkpoints of later steps are left out.
      start: the state before the first step, or None if a checkpoint contains it.
    """
    for step, path in checkpoints:
        if step > last_step:
            continue
        try:
            checkpoint = load_checkpoint(path)
        except CheckpointError as error:
            deco_print(f"WARNING: {error} Trying the previous checkpoint.")
            continue
        if all(np.isfinite(array).all() for array in checkpoint.weights.values()):
            yield GoodState(path.name, step, checkpoint.weights, checkpoint.optimizer, checkpoint.carried)
    if start is not None:
        yield start


def pick_state(tried: Iterator[Tried], before: int | None = None) -> Tried:
    """Chooses the state to go back to.

    The weights of a checkpoint can be finite although they are already diverging. An older state is therefore preferred
    as long as its loss on the same batch is far lower, or the loss of the newer one is not finite. If no state has a
    finite loss, the batch is the cause, and the newest state is chosen.

    Args:
      tried: states with their losses on one batch, the newest first; consumed lazily, because each costs a pass.
      before: step of the state that the last recovery went back to, if the run has diverged again soon after; else
        None. If it is given, a state of an earlier step with a finite loss is chosen if there is one.
    """
    chosen = next(tried)
    for older in tried:
        too_new = before is not None and chosen.state.step >= before
        if chosen.finite and not too_new and not chosen.is_astray(older):
            break
        if older.finite:
            chosen = older
    return chosen
