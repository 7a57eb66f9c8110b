"""Restores a model or a run from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.checkpoints import Checkpoint, assign_matching, assign_strictly, load_checkpoint, match
from open_seq2seq.checkpoints.hugging_face import HuggingFaceFolder
from open_seq2seq.checkpoints.inputs import RunInputs
from open_seq2seq.checkpoints.original import OriginalFiles, read_converted
from open_seq2seq.checkpoints.run_variables import RunVariables
from open_seq2seq.checkpoints.state import AVERAGE, CARRIED, METRICS
from open_seq2seq.models.model import Model
from open_seq2seq.optimizers.registry import AVERAGES, averages_weights
from open_seq2seq.optimizers.schedule_free import WEIGHT_SUM
from open_seq2seq.optimizers.weight_average import MEAN_COUNT, MEAN_TRIGGER
from open_seq2seq.parts.component import named_variables
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils.console import deco_print, format_count
from open_seq2seq.utils.errors import CheckpointError

# Texts by which lines of a ``MatchReport`` are recognised as acceptable mismatches: a run may be resumed in another
# precision, and so with another loss scaler; averaging may begin or end.
_MAY_DIFFER = (" loss_scale/", f" {AVERAGE}", f" {MEAN_COUNT}", f" {MEAN_TRIGGER}")


def restore_weights(model: Model, inputs: RunInputs, checkpoint: Checkpoint) -> None:
    """Assigns a checkpoint's weights to a model.

    If the config enables averaging of the weights, or the run's optimizer averages them by itself, their averages are
    assigned instead, unless the checkpoint has none.

    Args:
      model: the model.
      inputs: the files that the model has read.
      checkpoint: the checkpoint.

    Raises:
      CheckpointError: the variables or assets, such as vocabularies, differ from the checkpoint's.
    """
    averages = checkpoint.averaged_weights
    is_schedule_free = f"slots/{WEIGHT_SUM}" in checkpoint.optimizer
    used = averages if is_schedule_free or averages_weights(model.params) else {}
    if is_schedule_free:
        deco_print("Weights: the average of the schedule-free optimizer", offset=1)
    elif used:
        name = next(name for name in AVERAGES if model.params[name] is not None)
        deco_print(f"Weights: the {'moving average' if name == 'ema_decay' else 'mean'} ({name})", offset=1)
    elif averages_weights(model.params):
        deco_print("WARNING: this checkpoint has no average of the weights, because its run did not enable one: using "
                   "the weights as trained.", offset=1)
    else:
        hint = ("; the checkpoint also has their average, which ema_decay, average_from or "
                "average_after_evals_without_gain selects" if averages else "")
        deco_print(f"Weights: as trained{hint}", offset=1)
    # Parts that exist only in other modes, such as a loss, may have weights in the checkpoint.
    left_out = model.parts_of_other_modes
    weights = {name: value for name, value in {**checkpoint.weights, **used}.items()
               if name.partition("/")[0] not in left_out}
    assign_strictly(named_variables(model), weights, checkpoint.path)
    inputs.check_assets(checkpoint)


def restore_run(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Restores the variables and the position of a run from a checkpoint.

    Raises:
      CheckpointError: the config, or a file that it names, does not fit the checkpoint.
    """
    assign_strictly(trainer.variables, checkpoint.weights, checkpoint.path)
    if trainer.saver is not None:
        trainer.saver.inputs.check(checkpoint)
    state = trainer.optimizer.state()
    values = {name: value for name, value in checkpoint.optimizer.items() if not name.startswith(CARRIED)}
    lines = [line for line in match(state, values).lines() if not any(part in line for part in _MAY_DIFFER)]
    if lines:
        raise CheckpointError(f"The checkpoint {checkpoint.path} has the state of another optimizer: {lines[0]}. "
                              "Resume with the optimizer of the run, or start a new run with load_model.")
    assign_matching(state, values)
    _restore_average(trainer.state, checkpoint)
    restore_position(trainer, checkpoint.state, checkpoint.carried)
    if trainer.saver is not None:  # last: it removes old checkpoints
        trainer.saver.resume(trainer.step)


def restore_position(trainer: Trainer, state: Mapping[str, Any],
                     carried: Mapping[str, np.ndarray] | None = None) -> None:
    """Restores the position, carried states and divergence history of a run; other variables are restored separately.

    The position in the data is that of the checkpoint, even if the number of ranks has changed.

    Args:
      trainer: the run's trainer.
      state: the checkpoint's ``state.json``.
      carried: the checkpoint's carried states, as returned by ``RunStates.gather``, on rank 0; None on other ranks.

    Raises:
      CheckpointError: the carried states do not fit this run, and ``carried_state_on_resume`` is ``refuse``.
    """
    on_other = trainer.model.params["carried_state_on_resume"]
    trainer.resume(int(state["step"]), trainer.carried.restore(carried, on_other, int(state["micro_batch"])))
    before, now = state.get("world_size", 1), trainer.runner.world_size
    if before != now:
        deco_print(f"The checkpoint was saved with {format_count(before, 'rank')}, and training continues with "
                   f"{format_count(now, 'rank')} from batch {trainer.micro_batch}: an update now uses "
                   f"{now / before:g} times as many examples.")
    trainer.divergence.resume(state.get("divergence", {}))
    trainer.evaluated_at = trainer.step if METRICS in state else -1
    trainer.last_metrics = dict(state.get(METRICS, {}))


def _restore_average(variables: RunVariables, checkpoint: Checkpoint) -> None:
    """Starts averages of the weights that the checkpoint lacks; prints a message if averaging starts or stops."""
    here, there = set(variables.optimizer.averaged_weights), set(checkpoint.averaged_weights)
    if here - there:
        variables.optimizer.restart_average(variables.trainable, here - there)
        deco_print("The checkpoint has no average of the weights: averaging starts at this step.")
    elif there and not here:
        deco_print("The checkpoint has an average of the weights, but the config does not enable one: averaging stops.")


def load_base_model(model: Model, variables: RunVariables, path: Path | OriginalFiles | HuggingFaceFolder) -> None:
    """Assigns another run's weights, or their average if it kept one, to the variables of the same name and shape.

    Mismatches are printed. An average of this run's weights restarts from the assigned ones.

    Args:
      model: the model.
      variables: the variables of this run.
      path: folder of a checkpoint, the files of a checkpoint of NVIDIA's OpenSeq2Seq, or a folder of Hugging Face.

    Raises:
      CheckpointError: no variable matches, or the checkpoint is damaged.
    """
    deco_print(f"Loading model from {path}")
    if isinstance(path, OriginalFiles):
        conversion = read_converted(path, model)[1]
        report = assign_matching(variables.weights, conversion.weights)
        report.unused += conversion.unused
    elif isinstance(path, HuggingFaceFolder):
        from open_seq2seq.export.hugging_face import weights_of

        report = assign_matching(variables.weights, weights_of(path, model))
    else:
        report = assign_matching(variables.weights, _base_weights(model, variables, path))
    if not report.assigned:
        raise CheckpointError(f"No variable of this model has the name and shape of one in {path}: load_model needs "
                              "a checkpoint of a similar model.")
    variables.optimizer.restart_average(variables.trainable)
    for line in report.lines():
        deco_print(line, offset=1)
    deco_print(f"{len(report.assigned)} of {len(variables.weights)} variables loaded", offset=1)


def _base_weights(model: Model, variables: RunVariables, path: Path) -> Mapping[str, np.ndarray]:
    """Returns the weights of a checkpoint, or their average if it has one, adapted to the model."""
    checkpoint = load_checkpoint(path)
    checkpoint.check_finite()
    averages = checkpoint.averaged_weights
    if averages:
        deco_print("Using the average of its weights", offset=1)
    return model.adapted_weights({**checkpoint.weights, **averages}, checkpoint.assets, variables.weights)
