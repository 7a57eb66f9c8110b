"""One training from its first update to its last: hooks, signals, recovery from divergence, and errors."""

from __future__ import annotations

from collections.abc import Sequence

from open_seq2seq.training.loop.builtin_hooks import hooks_of
from open_seq2seq.training.loop.trainer import Trainer, TrainingHook
from open_seq2seq.training.recovery.divergence import Divergence
from open_seq2seq.training.recovery.recovery import Recovery
from open_seq2seq.training.recovery.rescue import rescued


def train(trainer: Trainer, last_hooks: Sequence[TrainingHook] = ()) -> int | None:
    """Trains to the end or until a signal.

    Args:
      trainer: makes the updates.
      last_hooks: called after those that the config asks for.

    Returns:
      The signal's number when one stopped the training, else None.

    Raises:
      DivergenceError: the run diverged and has to stop.
      PrecisionLowered: it diverged and has to continue in another type, with another trainer.
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
        if trainer.stop.requested:  # also where the config asks for no regular checkpoints
            trainer.save_checkpoint()
        trainer.wait_for_checkpoint()
    return trainer.stop.signum
