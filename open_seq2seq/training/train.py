"""Runs training from the first update to the last, calls hooks, and handles signals, divergence and errors."""

from __future__ import annotations

from collections.abc import Sequence

from open_seq2seq.training.loop.builtin_hooks import hooks_of
from open_seq2seq.training.loop.divergence import Divergence
from open_seq2seq.training.loop.trainer import Trainer, TrainingHook
from open_seq2seq.training.recovery.recovery import Recovery
from open_seq2seq.training.recovery.rescue import rescued


def train(trainer: Trainer, last_hooks: Sequence[TrainingHook] = ()) -> int | None:
    """Trains until the end, or until a signal is received.

    Args:
      trainer: the trainer.
      last_hooks: hooks to call after those that the config enables.

    Returns:
      The number of the signal that stopped training, or None.

    Raises:
      DivergenceError: the run diverged and has to stop.
      PrecisionLowered: the run diverged and has to continue in another dtype, with a new trainer.
    """
    hooks: list[TrainingHook] = [*hooks_of(trainer), *last_hooks]
    with trainer.stop, rescued(trainer):
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
        if trainer.stop.requested:  # save even if the config disables regular checkpoints
            trainer.save_checkpoint()
        trainer.wait_for_checkpoint()
    return trainer.stop.signum
