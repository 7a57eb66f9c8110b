"""States of a run that it can go back to: its checkpoints, or its start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from open_seq2seq.training.checkpoints import assign_matching, load_checkpoint
from open_seq2seq.training.checkpoints.files import AVERAGE
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError

if TYPE_CHECKING:
    from open_seq2seq.training.loop.trainer import Trainer

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
    def take(cls, name: str, trainer: Trainer) -> GoodState:
        """Copies a trainer's state."""
        return cls(name, trainer.step, _copies(trainer.variables), _copies(trainer.optimizer.state()),
                   trainer.carried.gather())

    @property
    def updates(self) -> int:
        """Updates made when it was taken."""
        return int(self.optimizer["updates"])

    def put_into(self, trainer: Trainer) -> None:
        """Assigns everything that fits.

        A loss scaler of another kind keeps its own state; a moving average that was not
        kept then begins with the weights.
        """
        assign_matching(trainer.variables, self.weights)
        trainer.carried.assign_fitting(self.carried)  # older checkpoints may be of another number of slots
        report = assign_matching(trainer.optimizer.state(), self.optimizer)
        averages = [name for name in trainer.optimizer.averaged_weights if AVERAGE + name in report.missing]
        trainer.optimizer.restart_average(trainer.trainable, averages)


def note_start(trainer: Trainer) -> GoodState | None:
    """Keeps the state before the first step, where no checkpoint has it yet.

    It becomes the run's first checkpoint; where the config asks for none, it is
    returned, to be held in memory.
    """
    if trainer.saver is not None and any(step <= trainer.step for step, _ in trainer.saver.regular()):
        return None
    if trainer.saver is not None and trainer.model.params["save_checkpoint_steps"]:
        trainer.save_checkpoint()
        return None
    return GoodState.take(START, trainer)


def good_states(trainer: Trainer, start: GoodState | None) -> Iterator[GoodState]:
    """Yields the states to go back to, the newest first; checkpoints are read as they are asked for.

    Args:
      trainer: checkpoints from after its present step are left out.
      start: the last resort.
    """
    for step, path in trainer.saver.regular() if trainer.saver is not None else ():
        if step > trainer.step:
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


def pick_state(tried: Iterator[tuple[GoodState, float]], before: int | None = None) -> tuple[GoodState, float]:
    """Chooses the state to go back to; returns it with its loss.

    A checkpoint can be finite and yet be astray already. So each is left for the one before as
    long as that has a far lower loss on the same batch, or its own is not finite. Where none is
    finite the batch itself is to blame, and the newest is taken.

    Args:
      tried: states, the newest first, each with its loss on one batch (inf where it is not finite);
        taken one by one, as trying is dear.
      before: go back further than this step: the run has come to grief from there.
    """
    chosen, least = next(tried)
    for state, loss in tried:
        astray = loss < float("inf") and least - loss > abs(loss)
        again = before is not None and chosen.step >= before
        if least < float("inf") and not astray and not again:
            break
        if loss < float("inf"):
            chosen, least = state, loss
    return chosen, least


def _copies(variables: Mapping[str, tf.Variable]) -> dict[str, np.ndarray]:
    return {name: np.array(variable.numpy()) for name, variable in variables.items()}
