"""Describes a run: prints lines about it before it starts, and writes its config and variables to its logdir."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from open_seq2seq.config.resolve import RunOptions
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.models.builder import ModelSpec
from open_seq2seq.models.model import Model
from open_seq2seq.models.results import cut_remarks
from open_seq2seq.optimizers import transformer_policy
from open_seq2seq.runners import Runner
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print, format_count
from open_seq2seq.utils.errors import UserError

OVERVIEW = "overview.txt"
"""File in a logdir with the config and variables of a run; if they have changed, a resumed run writes another file."""

_TITLES = {"train": "Training config", "eval": "Evaluation config", "infer": "Inference config",
           "interactive_infer": "Inference config"}
_VERBS = {"train": "Training", "train_eval": "Training and evaluating", "eval": "Evaluating", "infer": "Inference with",
          "interactive_infer": "Inference with"}


def config_lines(options: RunOptions, specs: Mapping[str, ModelSpec]) -> list[str]:
    """Returns the lines of the config: the parameters of each section, as YAML."""
    lines = []
    for section, spec in specs.items():
        lines += [f"{'New benchmarking config' if options.benchmark else _TITLES[section]}:"]
        lines += [f"   {line}" for line in to_yaml(spec.params).rstrip().split("\n")]
    return lines


def print_task(options: RunOptions, specs: Mapping[str, ModelSpec], notes: list[str]) -> None:
    """Prints the config file, the model and its main parts, and the given notes; with --verbose, the config too."""
    if options.verbose:
        for line in config_lines(options, specs):
            deco_print(line)
    spec = next(iter(specs.values()))
    parts = [spec.params[name].__name__ for name in spec.model_class.all_parts()
             if name not in ("data_layer", "loss") and hasattr(spec.params.get(name), "__name__")]
    path = options.config.config_file.path
    of = _short(path) if path else "the given config"
    deco_print(f"{'Timing' if options.benchmark else _VERBS[options.mode]} the model of {of}")
    deco_print(f"Model: {spec.model_class.__name__}" + (f" with {', '.join(parts)}" if parts else ""))
    for note in notes:
        deco_print(note)


def print_training(options: RunOptions, specs: Mapping[str, ModelSpec], trainer: Trainer,
                   folder: Path | None) -> tuple[Path, bytes] | None:
    """Prints the data, the model, the length and the logdir of a run, and what the lines of its progress contain.

    Args:
      options: options of the run.
      specs: specs of the models, by section.
      trainer: the trainer before its first update.
      folder: folder of the checkpoints; None if this process writes no files.

    Returns:
      The path and the content of the run's overview, for ``write_overview``; None without ``folder``.
    """
    models = [model for model in (trainer.model, trainer.eval_model) if model is not None]
    data = [format_count(model.data_layer.num_examples, f"{name} example")
            for name, model in zip(("training", "validation"), models, strict=False)]
    deco_print(f"Data: {', '.join(data)}")
    for model in models:
        _print_remarks(model)
    warn_of_shared_files(trainer.model, trainer.eval_model)
    if options.verbose:
        print_parameter_table(trainer.trainable, trainer.variables)
    fixed = _count(trainer.variables) - _count(trainer.trainable)
    parts = f"{_count(trainer.trainable):,}" + (f" trained and {fixed:,} others" if fixed else "")
    deco_print(f"Parameters: {parts}, on {_devices(trainer.runner)}")
    epochs = trainer.epochs_in(trainer.last_step)
    every = trainer.model.params["eval_steps"] if trainer.eval_model is not None else None
    deco_print(f"Length: {format_count(trainer.last_step, 'step')}, {epochs:.1f} epochs"
               + (f", evaluation every {format_count(every, 'step')}" if every else ""))
    if not options.benchmark:
        warn_of_warm_up(trainer)
    overview = None
    if folder is not None:
        overview = _overview(options, specs, trainer, folder)
        deco_print(f"Logdir: {folder} (config and variables: {overview[0].name})")
    _print_progress_legend(trainer.model)
    return overview


def warn_of_shared_files(model: Model, eval_model: Model | None) -> None:
    """Prints a warning if the evaluation of a run reads a file that training reads, too."""
    if eval_model is None:
        return
    trained, evaluated = ({os.path.realpath(path): path for path in one.data_layer.data_files().values()}
                          for one in (model, eval_model))
    shared = [path for real, path in evaluated.items() if real in trained]
    if shared:
        deco_print(f"WARNING: training and evaluation both read {shared[0]}, so the evaluation is not one of new data:")
        deco_print("name the files of each in train_params and eval_params, instead of for both.", offset=1)


def warn_of_warm_up(trainer: Trainer) -> None:
    """Prints a warning if the learning rate still rises at the end of training."""
    arguments = trainer.model.params["lr_policy_params"]
    steps = arguments.get("warmup_steps")
    if not isinstance(steps, int) or not steps >= trainer.last_step > 1:
        return
    length = format_count(trainer.last_step, "step")
    deco_print(f"WARNING: warmup_steps is {steps:,}, but training has only {length}:")
    if trainer.model.params["lr_policy"] is not transformer_policy:
        deco_print("the learning rate only rises; lower lr_policy_params/warmup_steps.", offset=1)
        return
    fewer = max(1, trainer.last_step // 10)  # the highest rate grows as 1/sqrt(warmup_steps)
    rate = float(arguments["learning_rate"]) * math.sqrt(fewer / steps)
    deco_print("the learning rate only rises. For the same highest rate in this run, give", offset=1)
    deco_print(f"lr_policy_params/warmup_steps={fewer} and lr_policy_params/learning_rate={rate:.3g}.", offset=1)


def write_overview(overview: tuple[Path, bytes] | None) -> None:
    """Writes the config and variables of a run to its folder.

    This should be the last step before training, so that a run that cannot start leaves no file. An existing file is
    never replaced: if its content differs, the new file has a number after its name.

    Args:
      overview: what ``print_training`` has returned.

    Raises:
      UserError: the file cannot be written.
    """
    if overview is not None:
        path, content = overview
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                disk.write_new(path, content)
        except OSError as error:
            raise UserError(f"The config and variables cannot be written to {path}: {error.strerror}.") from error


def print_model(model: Model, variables: Mapping[str, tf.Variable], runner: Runner, verbose: bool) -> None:
    """Prints the data and the size of a model for evaluation or inference; with ``verbose``, also its variables."""
    if verbose:
        print_parameter_table(variables, variables)
    examples = "" if model.mode == "interactive_infer" else (
        f"Data: {format_count(model.data_layer.num_examples, 'example')}; ")
    deco_print(f"{examples}Parameters: {_count(variables):,}, on {_devices(runner)}")
    _print_remarks(model)


def _print_remarks(model: Model) -> None:
    # Inference reports what it has read at its end.
    cut = [] if model.mode == "infer" else cut_remarks(model.data_layer)
    for line in [*model.data_layer.remarks(), *cut]:
        deco_print(line, offset=1)


def _short(path: str) -> str:
    """Returns a path, relative to the working directory if that is shorter."""
    try:
        return min(path, os.path.relpath(path), key=len)
    except OSError:  # the working directory has been removed
        return path


def _count(variables: Mapping[str, tf.Variable]) -> int:
    return sum(v.shape.num_elements() for v in variables.values())


def _print_progress_legend(model: Model) -> None:
    """Explains the lines of ``ProgressHook``."""
    unit = getattr(getattr(model, "loss", None), "unit", None)
    deco_print(f"Below: mean loss{f' per {unit}' if unit else ''} since the last line, learning rate, epochs,")
    deco_print(f"speed in {model.object_description or model.object_name}, time left", offset=1)


def _devices(runner: Runner) -> str:
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    if runner.num_processes > 1:
        return f"{runner.world_size} devices ({kind}) of {runner.num_processes} processes"
    return format_count(runner.local_replicas, kind if kind == "GPU" or runner.local_replicas == 1 else "CPU tower")


def _overview(options: RunOptions, specs: Mapping[str, ModelSpec], trainer: Trainer,
              folder: Path) -> tuple[Path, bytes]:
    """Returns the path and the content of a run's overview; if the file exists, it already has this content."""
    lines = [*config_lines(options, specs), *parameter_table(trainer.trainable, trainer.variables)]
    content = "".join(f"{line}\n" for line in lines).encode()
    same = [path for path in sorted(folder.glob(f"{OVERVIEW}*")) if path.is_file() and not path.is_symlink()
            and path.stat().st_size == len(content) and path.read_bytes() == content]
    return same[0] if same else disk.free_name(folder / OVERVIEW), content


def parameter_table(trainable: Mapping[str, tf.Variable], variables: Mapping[str, tf.Variable]) -> list[str]:
    """Returns the lines of a table of variables with their shapes and dtypes, and the number of trainable parameters.

    Args:
      trainable: the variables that the optimizer updates, by name.
      variables: all variables, by name; those not in ``trainable`` are listed separately.
    """
    width = max((len(name) for name in variables), default=0)

    def line(name: str, variable: tf.Variable) -> str:
        return f"   {name:<{width}}  {str(tuple(variable.shape)):<16} {variable.dtype.name}"

    lines = ["Trainable variables:", *(line(n, v) for n, v in trainable.items())]
    others = {n: v for n, v in variables.items() if n not in trainable}
    if others:
        lines += ["Other variables:", *(line(n, v) for n, v in others.items())]
    return [*lines, f"Total trainable parameters: {_count(trainable):,}"]


def print_parameter_table(trainable: Mapping[str, tf.Variable], variables: Mapping[str, tf.Variable]) -> None:
    """Prints the result of ``parameter_table``."""
    for text in parameter_table(trainable, variables):
        deco_print(text)
