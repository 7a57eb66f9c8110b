"""Base class of hooks, which are called between the updates of a training run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from open_seq2seq.training.loop.trainer import Trainer


class Hook:
    """Base class of hooks; those named in a config are created as ``Hook(train_model=…, eval_model=…)``.

    An error in a hook ends the run with a message of one sentence; if possible, the state of the last update is saved.
    """

    def __init__(self, train_model: Any = None, eval_model: Any = None) -> None:
        self.train_model = train_model
        self.eval_model = eval_model

    def begin(self, trainer: Trainer) -> None:
        """Called once before the first update."""

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        """Called after each update; ``results`` contains tensors, and reading one waits for the device."""

    def end(self, trainer: Trainer) -> None:
        """Called once after the last update."""
