"""States of a run that it can go back to: its checkpoints, or its start."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.training.checkpoints import assign_matching, load_checkpoint
from open_seq2seq.training.checkpoints.files import AVERAGE
from open_seq2seq.training.loop.run_variables import RunVariables
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError

START = "the start"


@dataclass(frozen=True)
class GoodState:
    """Weights, optimizer and carried state, in host memory.

    Attributes:
      name: for messages: the checkpoint's folder name, or ``START``.
      step: updates attempted when it was taken.
      weights: by variable name.
      optimizer: slots, counters, loss scale by name.
      carried: states that the model carries from batch to batch, of all replicas, by path.
    """

    name: str
    step: int
    weights: Mapping[str, np.ndarray]
    optimizer: Mapping[str, np.ndarray]
    carried: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def take(cls, name: str, step: int, variables: RunVariables) -> GoodState:
        """Copies the present state; a collective operation where the model carries state."""
        return cls(name, step, _copies(variables.weights), _copies(variables.optimizer.state()),
                   variables.carried.gather())

    @property
    def updates(self) -> int:
        """Updates made when it was taken."""
        return int(self.optimizer["updates"])

    def put_into(self, variables: RunVariables) -> None:
        """Assigns everything that fits.

        A loss scaler of another kind keeps its own state, and a moving average that this state lacks begins with the
        weights.
        """
        assign_matching(variables.weights, self.weights)
        variables.carried.assign_fitting(self.carried)  # older checkpoints may have another number of slots
        optimizer = variables.optimizer
        report = assign_matching(optimizer.state(), self.optimizer)
        averages = [name for name in optimizer.averaged_weights if AVERAGE + name in report.missing]
        optimizer.restart_average(variables.trainable, averages)


class Tried(NamedTuple):
    """A state, and the loss of the batch in question with its weights; inf where that is not finite."""

    state: GoodState
    loss: float

    @property
    def finite(self) -> bool:
        """Whether the batch is finite with these weights."""
        return math.isfinite(self.loss)

    def is_astray(self, older: Tried) -> bool:
        """Whether an older state has a far lower loss, so that the weights had left the right way before this one."""
        return older.finite and self.loss - older.loss > abs(older.loss)


def good_states(checkpoints: Iterable[tuple[int, Path]], last_step: int, start: GoodState | None,
                ) -> Iterator[GoodState]:
    """Yields the states to go back to, the newest first; a checkpoint is read when its turn comes.

    Args:
      checkpoints: (step, folder) of the run's regular checkpoints, the newest first.
      last_step: later checkpoints are left out.
      start: the state before the first step, where no checkpoint has it.
    """
    for step, path in checkpoints:
        if step > last_step:
            continue
        try:
            checkpoint = load_checkpoint(path)
        except CheckpointError as error:
            deco_print(f"WARNING: {error} Trying the checkpoint before it.")
            continue
        if all(np.isfinite(array).all() for array in checkpoint.weights.values()):
            yield GoodState(path.name, step, checkpoint.weights, checkpoint.optimizer, checkpoint.carried)
    if start is not None:
        yield start


def pick_state(tried: Iterator[Tried], before: int | None = None) -> Tried:
    """Chooses the state to go back to.

    The weights of a checkpoint can be finite and yet be on the way to divergence. So an older state is preferred as
    long as its loss on the same batch is far lower, or the loss of the newer one is not finite. Where no state has a
    finite loss the batch is at fault, and the newest state is chosen.

    Args:
      tried: states with their losses on one batch, the newest first; taken one by one, because each costs a pass.
      before: choose a state from before this step where there is one, because the run diverged again after going back
        there.
    """
    chosen = next(tried)
    for older in tried:
        too_new = before is not None and chosen.state.step >= before
        if chosen.finite and not too_new and not chosen.is_astray(older):
            break
        if older.finite:
            chosen = older
    return chosen


def _copies(variables: Mapping[str, tf.Variable]) -> dict[str, np.ndarray]:
    return {name: np.array(variable.numpy()) for name, variable in variables.items()}
