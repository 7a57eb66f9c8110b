"""Restores a model or a run from a checkpoint, after it has printed or refused the changes of the config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.checkpoints import Checkpoint, assign_matching, assign_strictly, load_checkpoint, match
from open_seq2seq.checkpoints.hugging_face import HuggingFaceFolder
from open_seq2seq.checkpoints.inputs import RunInputs
from open_seq2seq.checkpoints.original import OriginalFiles, read_converted
from open_seq2seq.checkpoints.run_variables import RunVariables
from open_seq2seq.checkpoints.state import AVERAGE, CARRIED, CONFIG, METRICS, SECONDS
from open_seq2seq.config.data_note import strings_in
from open_seq2seq.config.files import ASSET, LARGE, named_files
from open_seq2seq.config.loader import parse_config
from open_seq2seq.config.names import part_class
from open_seq2seq.config.params import FREE, PARAMS, REFUSE, SAY, Param, coerce, declared_by, shown
from open_seq2seq.config.resolve import ResolvedConfig, RunOptions
from open_seq2seq.config.serialize import to_plain
from open_seq2seq.models.model import Model
from open_seq2seq.optimizers.registry import AVERAGES, averages_weights
from open_seq2seq.optimizers.schedule_free import WEIGHT_SUM
from open_seq2seq.optimizers.weight_average import MEAN_COUNT, MEAN_TRIGGER
from open_seq2seq.parts.component import named_variables
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils.console import deco_print, format_count
from open_seq2seq.utils.errors import CheckpointError, ConfigError

# Texts by which lines of a ``MatchReport`` are recognised as acceptable mismatches: a run may be resumed in another
# precision, and so with another loss scaler; averaging may begin or end.
_MAY_DIFFER = (" loss_scale/", f" {AVERAGE}", f" {MEAN_COUNT}", f" {MEAN_TRIGGER}")
_ABSENT, _DATA = "absent", "data_layer_params"


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
        name = next((name for name in AVERAGES if model.params[name] is not None), "")
        kind = {"": "average in the checkpoint", "ema_decay": "moving average (ema_decay)"}
        deco_print(f"Weights: the {kind.get(name, f'mean ({name})')}", offset=1)
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
    trainer.began -= state.get(SECONDS, 0)
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


@dataclass(frozen=True)
class Change:
    """A parameter whose value has changed.

    Attributes:
      path: the parameter's path in the config.
      kind: ``refuse`` or ``say``; see ``Param.on_change``.
      before: the old value, in the plain form that ``to_plain`` returns.
      now: the new value, in the same form.
    """

    path: tuple[str, ...]
    kind: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"'{'/'.join(self.path)}' is {_shown(self.now)} but was {_shown(self.before)}"


def changes(component: Any, before: Mapping[str, Any], now: Mapping[str, Any],
            part: tuple[str, ...] = ()) -> Iterator[Change]:
    """Yields the differences in the parameters of a component and of the components nested in it.

    Derived parameters and those whose ``on_change`` is ``free`` are left out. File names are not compared, because only
    the content of the files matters. If the class of a nested component has changed, this is reported as one change,
    and the component's parameters are not compared.

    Args:
      component: the class of the model or component.
      before: the old parameters as plain values; defaults may be missing.
      now: the new parameters; objects are allowed in place of their names.
      part: path of the parameters in the config.
    """
    declared = declared_by(component).all
    inside = {name: nested for name in now if name + PARAMS in declared or name + PARAMS in now
              if hasattr(nested := part_class(now[name], declared[name].names if name in declared else ""),
                         "declared_params")}
    for name, spec in declared.items():
        stem = name.removesuffix(PARAMS)
        if spec.derived or (name in inside and spec.on_change == FREE):
            continue
        old, new = (to_plain(coerce(params.get(name, spec.default), spec)[0]) for params in (before, now))
        if name == stem or stem not in inside:
            yield from _differences(spec, old, new, (*part, name))
        elif not list(_differences(declared[stem], before.get(stem), to_plain(now[stem]), ())):
            yield from changes(inside[stem], old if isinstance(old, Mapping) else {}, now.get(name) or {},
                               (*part, name))


def _differences(spec: Param, before: Any, now: Any, path: tuple[str, ...]) -> Iterator[Change]:
    """Yields the differences in one parameter; dicts and lists of dicts are compared entry by entry."""
    if isinstance(spec.file, str) and spec.file:
        return
    if _are_dicts(before, now):
        for key in dict.fromkeys([*now, *before]):
            if isinstance(spec.file, str) or key not in spec.file:
                yield from _differences(spec, before.get(key, _ABSENT), now.get(key, _ABSENT), (*path, str(key)))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now) \
            and any(_are_dicts(*pair) for pair in zip(before, now, strict=True)):
        for number, pair in enumerate(zip(before, now, strict=True)):
            yield from _differences(spec, *pair, (*path, str(number)))
    elif _comparable(before, spec) != _comparable(now, spec):
        kind = spec.on_change
        if not isinstance(kind, str):
            kind = kind.get(path[-1], kind.get("", SAY))
        if kind != FREE:
            yield Change(path, kind or SAY, before, now)


def _are_dicts(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _comparable(value: Any, spec: Param) -> Any:
    """Returns a value for comparison: names without their file or module, and the same text for all lambdas."""
    if isinstance(value, list):
        return [_comparable(item, spec) for item in value]
    if not isinstance(value, str):
        return value
    name = value.rpartition(".py:")[2]
    return "<lambda>" if name.startswith("<lambda>") else name.rpartition(".")[2] if spec.names else name


def _shown(value: Any) -> str:
    return value if value == _ABSENT else shown(value)


def check_config(options: RunOptions, checkpoint: Checkpoint) -> bool:
    """Compares the config of a run with that of a checkpoint's run.

    If training is resumed, each difference that affects results is printed. In all modes, a difference with which the
    weights would compute another function is an error or, with ``--no_dir_check``, a warning.

    Returns:
      False for an evaluation on other data than those that the checkpoint's config names for it; True otherwise.

    Raises:
      CheckpointError: with a difference in the config, the weights would compute another function.
    """
    try:  # sections of one config can differ from that of training, too
        before = options.config if options.as_saved else ResolvedConfig(
            parse_config(checkpoint.config_yaml, str(checkpoint.path / CONFIG)), options.mode)
    except ConfigError as error:
        deco_print(f"WARNING: the config cannot be compared with that of {checkpoint.path.name}: {error.problems[0]}")
        return True
    config, training, same_data = options.config, options.mode.startswith("train"), True
    different: dict[str, Change] = {}
    with config.config_file.in_use():
        model_class = part_class(config.base_model, "model")
        for section in config.sections:
            old, new = before.merge(section)[0], config.params(section)
            same_data &= options.mode != "eval" or _same_data(old, new)
            if not training:  # The mode may have data of its own, but the rest has to fit what was trained.
                old = {**before.merge("train")[0], **{name: old.get(name) for name in ("data_layer", _DATA)}}
            different |= {str(change): change for change in changes(model_class, old, new)}
    if training:
        for line in (line for line, change in different.items() if change.kind != REFUSE):
            deco_print(f"The config has changed since {checkpoint.path.name}: {line}.")
    refused = [line for line, change in different.items() if change.kind == REFUSE]
    if refused:
        problem = (f"The config does not fit the checkpoint {checkpoint.path}, whose weights would now compute a "
                   f"different function: {'; '.join(refused)}.")
        if not options.no_dir_check:
            raise CheckpointError(f"{problem} Use the values in the checkpoint's {CONFIG}, start a new run from "
                                  "its weights with load_model, or add --no_dir_check if the change is intended.")
        deco_print(f"WARNING: {problem}")
    return same_data


def _same_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Returns whether two sections name the same data.

    All strings among the data layer's parameters are assumed to name data, except files that checkpoints keep, such as
    vocabularies.
    """
    layer, params = part_class(now.get("data_layer"), "data_layer"), now.get(_DATA) or {}
    files = named_files(layer, params) if hasattr(layer, "declared_params") else []
    kept_names = {file.keys[-1] for file in files if file.kind in (ASSET, LARGE)}
    return dict(strings_in(before.get(_DATA), kept_names)) == dict(strings_in(params, kept_names))
