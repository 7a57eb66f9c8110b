"""A training that ends by an error leaves the state it had reached."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from open_seq2seq.runners.horovod.elastic import Regroup
from open_seq2seq.training.divergence import Divergence
from open_seq2seq.utils.errors import CheckpointError, UserError

if TYPE_CHECKING:
    from open_seq2seq.training.trainer import Trainer


@contextlib.contextmanager
def rescued(trainer: Trainer) -> Iterator[None]:
    """Within this context an error between updates is raised when the state after the last update is on disk.

    Evaluation, samples, summaries, hooks of a config and data that went away fail so. An error within an update leaves
    no state to keep, and a checkpoint that could not be written says so itself. The error gets a note that tells
    what is there.
    """
    first = trainer.step
    try:
        yield
    except Regroup:
        raise
    except (Exception, SystemExit) as error:
        if trainer.is_whole:
            saved = trainer.step > first and not isinstance(error, CheckpointError) and _save(trainer)
            error.add_note(f"Training ended after step {trainer.step}" + (
                ", which is saved: go on with --continue_learning." if saved else "."))
        raise


def _save(trainer: Trainer) -> bool:
    """Saves the present state, where that needs no other process; returns whether it is on disk."""
    several = trainer.runner.num_processes > 1
    if trainer.saver is None or (several and (trainer.carried or not trainer.is_settled)):
        return False
    try:
        trainer.save_checkpoint()
        trainer.wait_for_checkpoint()
    except (UserError, Divergence, OSError):  # the error that ends the run has the word
        return False
    return True
