"""Giving a model or a run the weights of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.models.model import Model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.training.checkpoints import Checkpoint, assign_matching, assign_strictly, load_checkpoint, match
from open_seq2seq.training.checkpoints.files import AVERAGE, CARRIED
from open_seq2seq.training.checkpoints.kept_files import check_assets
from open_seq2seq.training.loop.run_variables import RunVariables
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError

# A run may be resumed in another precision, and so with another loss scaler; averaging may begin or end; older
# checkpoints count no overflows and have no factor of the rate.
_MAY_DIFFER = (" loss_scale/", f" {AVERAGE}", " overflows:", " rate_factor:")


def ranks(number: int) -> str:
    """Returns a number of ranks in words."""
    return "1 rank" if number == 1 else f"{number} ranks"


def restore_weights(model: Model, checkpoint: Checkpoint) -> None:
    """Gives a model a checkpoint's weights: their moving average where the config has ``ema_decay``.

    Raises:
      CheckpointError: the model's variables or its vocabularies are not the checkpoint's.
    """
    averages = checkpoint.averaged_weights
    used = averages if model.params["ema_decay"] is not None else {}
    if used:
        deco_print("Weights: the moving average (ema_decay)", offset=1)
    elif model.params["ema_decay"] is not None:
        deco_print("WARNING: this checkpoint has no moving average of the weights, because its run had no ema_decay: "
                   "the weights as trained are used.", offset=1)
    else:
        kept = "; the checkpoint has their moving average too, which ema_decay would choose" if averages else ""
        deco_print(f"Weights: as trained{kept}", offset=1)
    # Parts that only other modes have, such as a loss, may have weights too.
    left_out = model.parts_of_other_modes
    weights = {name: value for name, value in {**checkpoint.weights, **used}.items()
               if name.partition("/")[0] not in left_out}
    assign_strictly(named_variables(model), weights, checkpoint.path)
    check_assets(model, checkpoint)


def restore_run(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Puts a run where its checkpoint was taken.

    Raises:
      CheckpointError: the config does not fit the checkpoint.
    """
    assign_strictly(trainer.variables, checkpoint.weights, checkpoint.path)
    if trainer.saver is not None:
        trainer.saver.inputs.check(checkpoint)
    state = trainer.optimizer.state()
    values = {name: value for name, value in checkpoint.optimizer.items() if not name.startswith(CARRIED)}
    lines = [line for line in match(state, values).lines() if not any(part in line for part in _MAY_DIFFER)]
    if lines:
        raise CheckpointError(f"The checkpoint {checkpoint.path} has another optimizer's state: {lines[0]}. Resume "
                              "with the optimizer of the run, or start a new one by load_model.")
    assign_matching(state, values)
    _restore_average(trainer.state, checkpoint)
    restore_position(trainer, checkpoint.state, checkpoint.carried)


def restore_position(trainer: Trainer, state: Mapping[str, Any],
                     carried: Mapping[str, np.ndarray] | None = None) -> None:
    """Continues where a checkpoint was taken, whose variables have been, or will be, given to the trainer.

    The place in the data is that of the checkpoint, whatever the number of ranks.

    Args:
      trainer: of the run.
      state: the checkpoint's ``state.json``.
      carried: its carried states ``[G, rows, …]`` by path, on rank 0.
    """
    on_other = trainer.model.params["carried_state_on_resume"]
    trainer.resume(int(state["step"]), trainer.carried.restore(carried, on_other, int(state["micro_batch"])))
    before, now = state.get("world_size", 1), trainer.runner.world_size
    if before != now:
        deco_print(f"The checkpoint was taken on {ranks(before)}, and training continues with {ranks(now)} from batch "
                   f"{trainer.micro_batch} of the data: an update takes {now / before:g} times as many examples.")
    trainer.divergence.resume(state.get("divergence", {}))


def _restore_average(variables: RunVariables, checkpoint: Checkpoint) -> None:
    """Says where a moving average begins or ends; what the checkpoint has of it is assigned already."""
    here, there = set(variables.optimizer.averaged_weights), set(checkpoint.averaged_weights)
    if here - there:
        variables.optimizer.restart_average(variables.trainable, here - there)
        deco_print("The checkpoint has no moving average of the weights: it begins here, with the weights as they are.")
    elif there and not here:
        deco_print("The checkpoint has a moving average of the weights, which ends here: the config has no ema_decay.")


def load_base_model(variables: RunVariables, path: Path) -> None:
    """Starts from another run's weights where name and shape fit; prints what does not.

    Raises:
      CheckpointError: nothing fits.
    """
    deco_print(f"Loading model from {path}")
    checkpoint = load_checkpoint(path)
    checkpoint.check_finite()
    averages = checkpoint.averaged_weights
    if averages:
        deco_print("Its weights are taken from their moving average", offset=1)
    report = assign_matching(variables.weights, {**checkpoint.weights, **averages})
    variables.optimizer.restart_average(variables.trainable)
    for line in report.lines():
        deco_print(line, offset=1)
    if not report.assigned:
        raise CheckpointError(f"No variable of this model has the name and shape of one in {path}: load_model needs "
                              "a checkpoint of a similar model.")
    deco_print(f"{len(report.assigned)} of {len(variables.weights)} variables loaded", offset=1)
