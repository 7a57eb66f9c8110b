"""Base class of hooks, which are called between the updates of a training run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from open_seq2seq.training.loop.trainer import Trainer


class Hook:
    """Base class of hooks. A run creates each class in the config's ``hooks`` with the two arguments below.

    Hooks are created again when a recovery from divergence lowers the precision, which also replaces the models, and
    when the processes of an elastic job regroup.

    An error in a hook ends the run. If possible, the state of the last update is saved before, and the message names
    the failing line.

    Args:
      train_model: the training model.
      eval_model: the model for evaluation during training; None if the run does not evaluate.
    """

    def __init__(self, train_model: Any = None, eval_model: Any = None) -> None:
        self.train_model = train_model
        self.eval_model = eval_model

    def begin(self, trainer: Trainer) -> None:
        """Called once before the first update."""

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        """Called after each update.

        Args:
          trainer: the trainer. ``trainer.step`` is the number of this update, ``trainer.last_step`` that of the last
            one planned, and ``trainer.epoch`` the epoch of the next batch, counted from 0.
            ``trainer.state_variables`` is a dict of the weights and the optimizer's variables by name.
            ``trainer.evaluate()`` evaluates the model and returns the metrics, and ``trainer.save_checkpoint()`` saves
            a checkpoint. In a run of several processes, all of them must call these two methods after the same update.
          results: tensors ``[]`` by name. Reading one, as in ``float(results["loss"])``, waits until the device has
            computed the update.

            * ``loss``: loss of the update, including regularisation; ``finite_loss``: whether it is finite
            * ``learning_rate``: rate of this update
            * ``grad_norm``, ``clipped_grad_norm``: global norm of the gradient before and after clipping
            * ``applied``: whether the update was applied; ``skipped``: number of updates skipped so far
            * ``loss_scale``: loss scale of this update
            * ``overflows``: number of updates so far whose gradients contained inf or NaN

            Two entries are dicts by variable name: ``larc``, whose values are ``LarcInfo`` (empty without LARC), and,
            if ``summaries`` contains ``gradients`` or ``gradient_norm``, ``gradients``, whose values are the unscaled
            gradients. Further entries are for internal use.
        """

    def end(self, trainer: Trainer) -> None:
        """Called once after the last update, or after a signal has stopped training, but not after an error."""
