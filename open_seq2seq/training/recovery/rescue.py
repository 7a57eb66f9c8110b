"""A training that ends by an error saves the state that it had reached."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from open_seq2seq.runners.horovod.elastic import Regroup
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.training.recovery.divergence import Divergence
from open_seq2seq.utils.errors import CheckpointError, UserError


@contextlib.contextmanager
def rescued(trainer: Trainer) -> Iterator[None]:
    """Within this context an error between two updates is raised after the state of the last update has been saved.

    Such errors come from evaluation, samples, summaries, a config's hooks, and data that cannot be read any more. An
    error within an update leaves no state to save, and one of a checkpoint would only come again. The error gets a
    note that says what is saved.
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
    """Saves the present state, where that needs no other process; returns whether it is on disk."""
    several = trainer.runner.num_processes > 1
    if trainer.saver is None or (several and (trainer.carried or not trainer.is_settled)):
        return False
    try:
        trainer.save_checkpoint()
        trainer.wait_for_checkpoint()
    except (UserError, Divergence, OSError):  # the error that ends the run is the one to report
        return False
    return True
