"""Runs training from the first update to the last, calls hooks, and handles signals, divergence and errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from open_seq2seq.metrics.trackers import close_trackers
from open_seq2seq.runners.horovod.elastic import Regroup
from open_seq2seq.training.loop.builtin_hooks import hooks_of
from open_seq2seq.training.loop.divergence import Divergence
from open_seq2seq.training.loop.hooks import Hook
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.training.recovery.recovery import PrecisionLowered, Recovery
from open_seq2seq.utils.errors import CheckpointError, UserError

_HURRIED_SECONDS = 2  # of waiting for trackers


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


@contextlib.contextmanager
def tracked(trainer: Trainer) -> Iterator[None]:
    """Context manager that, on an error or a second Ctrl-C, tells the trackers how the training ended."""
    try:
        yield
    except (Regroup, PrecisionLowered, KeyboardInterrupt):  # training goes on at once, or the user is in a hurry
        close_trackers(trainer.trackers, "stopped", _HURRIED_SECONDS)
        raise
    except (Exception, SystemExit):
        close_trackers(trainer.trackers, "failed")
        raise


def train(trainer: Trainer, last_hooks: Sequence[Hook] = ()) -> int | None:
    """Trains until the end, or until a signal is received.

    Args:
      trainer: the trainer.
      last_hooks: hooks to call after those that the config enables.

    Returns:
      The number of the signal that stopped training, the same on all ranks, or None.

    Raises:
      DivergenceError: the run diverged and has to stop.
      PrecisionLowered: the run diverged and has to continue in another dtype, with a new trainer.
    """
    hooks = [*hooks_of(trainer), *last_hooks]
    with trainer.stop, tracked(trainer), rescued(trainer):
        recovery = Recovery(trainer)
        for hook in hooks:
            hook.begin(trainer)
        while True:
            try:
                trainer.run_steps(hooks)
                break
            except Divergence as divergence:
                recovery.recover(divergence)
        for hook in hooks:
            hook.end(trainer)
        trainer.wait_for_checkpoint()
        # Only now, so that a signal during the last evaluation counts. Some ranks may have received none.
        signum = next((one for one in trainer.runner.gather([trainer.stop.signum]) if one is not None), None)
        if signum is not None:  # save even if the config disables regular checkpoints
            trainer.save_checkpoint()
            trainer.wait_for_checkpoint()
    return signum
