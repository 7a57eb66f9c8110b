"""Saves the state of a training run that is ended by an error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from open_seq2seq.runners.horovod.elastic import Regroup
from open_seq2seq.training.loop.divergence import Divergence
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils.errors import CheckpointError, UserError


@contextlib.contextmanager
def rescued(trainer: Trainer) -> Iterator[None]:
    """Context manager that, on an error between two updates, saves the state of the last update before re-raising.

    Such errors come from evaluation, samples, summaries, the config's hooks, and data that can no longer be read. After
    an error within an update, there is no valid state to save. After a checkpoint error, saving would only fail again.
    A note is added to the error, saying whether the state has been saved.
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
                ", which is saved: resume with --continue_learning." if saved else "."))
        raise


def _save(trainer: Trainer) -> bool:
    """Saves the current state if no other process is needed for that; returns whether it is on disk."""
    several = trainer.runner.num_processes > 1
    if trainer.saver is None or (several and (trainer.carried or not trainer.is_settled)):
        return False
    try:
        trainer.save_checkpoint()
        trainer.wait_for_checkpoint()
    except (UserError, Divergence, OSError):  # the error that ends the run is the one to report
        return False
    return True
