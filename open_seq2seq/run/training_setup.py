"""The setup and the end of training, with a fixed set of processes or with a changing one (``--elastic``)."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.checkpoints import Checkpoint, assign_matching, choosing
from open_seq2seq.checkpoints.inputs import RunInputs, read_assets
from open_seq2seq.checkpoints.kept_files import MODES, keep_files
from open_seq2seq.checkpoints.run_saver import RunSaver
from open_seq2seq.config.data_note import as_comment
from open_seq2seq.config.overrides import apply_overrides
from open_seq2seq.config.resolve import RunOptions
from open_seq2seq.config.serialize import to_plain, to_yaml, unwritable
from open_seq2seq.metrics.trackers import Tracker, close_trackers, flattened
from open_seq2seq.models.builder import ModelSpec, build_model, describe_section
from open_seq2seq.models.model import Model
from open_seq2seq.optimizers.dtype import resolve_dtype
from open_seq2seq.run.logdir import START_MARK, LogDir, LogDirLock, check_logdir, write_mark
from open_seq2seq.run.logs import RunLogs
from open_seq2seq.run.restoring import check_config, load_base_model, restore_position, restore_run
from open_seq2seq.runners import Runner
from open_seq2seq.runners.preflight import check_agreement, check_data
from open_seq2seq.training.loop.builtin_hooks import awaits_evaluation
from open_seq2seq.training.loop.metrics_file import MetricsFile, start_table
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.training.train import tracked
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError


class Models(NamedTuple):
    """The models of a training run.

    Attributes:
      train: the training model.
      eval: the model for evaluation during training, or None.
      inputs: files and data that the models have read.
    """

    train: Model
    eval: Model | None
    inputs: RunInputs


def describe_sections(options: RunOptions) -> dict[str, ModelSpec]:
    """Returns the model specs of the config sections that the mode needs, by section.

    Raises:
      ConfigError: there are problems, or the checkpoints of a training run could not describe the model.
    """
    specs = options.specs or {section: describe_section(options.config, section)
                              for section in options.config.sections}
    if "train" in specs and specs["train"].params.get("logdir") and (lost := unwritable(options.config.as_sections())):
        raise ConfigError(lost)
    return {section: dataclasses.replace(spec, params=apply_overrides(spec.params, options.moved_files, ())[0])
            for section, spec in specs.items()}


def set_up_process(sections: Sequence[Mapping[str, Any]]) -> list[str]:
    """Allows or forbids TensorFloat-32 in this process, as ``tf32`` says; call it before any model is built.

    In TensorFloat-32, a GPU rounds the factors of float32 products to 10 bits of mantissa.

    Args:
      sections: the parameters of each section that this process uses.

    Returns:
      Lines for the log that describe the setting.

    Raises:
      ConfigError: ``tf32`` differs between the sections.
    """
    settings = {params.get("tf32") for params in sections}
    if len(settings) > 1:
        raise ConfigError(["'tf32' differs between the sections of this run, but applies to the whole process: set it "
                           "once, in base_params."])
    setting = next(iter(settings), None)
    if setting is not None:
        tf.config.experimental.enable_tensor_float_32_execution(setting)
    if tf.config.get_visible_devices("GPU"):
        enabled = tf.config.experimental.tensor_float_32_execution_enabled()
        default = "" if setting is not None else " (TensorFlow's default; change it with 'tf32')"
        return [f"TensorFloat-32: {'on' if enabled else 'off'}{default}"]
    return ["TensorFloat-32: 'tf32' has no effect, because there is no GPU"] if setting else []


def check_processes(options: RunOptions, params: Mapping[str, Any], runner: Runner) -> list[str]:
    """Checks that all processes have the same options, config and code; see ``check_agreement``."""
    flags = {name: getattr(options, name) for name in
             ("mode", "continue_learning", "no_dir_check", "benchmark", "enable_logs", "elastic", "check")}
    return check_agreement(runner, {**flags, **to_plain(options.config.as_sections())},
                           resolve_dtype(params["dtype"]).compute.name)


def open_logdir(options: RunOptions, spec: ModelSpec, stack: contextlib.ExitStack) -> LogDir:
    """Checks the log directory, locks it for training, and with ``--enable_logs`` starts the logs; for rank 0 only.

    Args:
      options: options of the run.
      spec: spec of a model of the run, which names the log directory.
      stack: releases the lock and ends the logs when it is closed.

    Raises:
      UserError: another process uses the directory, or it does not suit the mode; see ``check_logdir``.
    """
    if options.mode in ("train", "train_eval"):
        stack.enter_context(LogDirLock(spec.params.get("logdir") or None))
    logdir = check_logdir(options, spec.params)
    if options.mode in ("train", "train_eval") and logdir.root is not None and logdir.checkpoint is None:
        if not logdir.begins_anew and logdir.checkpoint_dir is not None:
            start_table(logdir.checkpoint_dir)
        write_mark(logdir.root, logdir.run, options)
    if options.enable_logs and logdir.root is not None:
        stack.enter_context(RunLogs.of(logdir.root, options))
    return logdir


def resumed(options: RunOptions, logdir: LogDir,
            runner: Runner) -> tuple[Checkpoint | None, dict[str, Any] | None]:
    """Returns the checkpoint to resume from.

    Only rank 0 reads the log directory, which may not exist on other hosts.

    Returns:
      (the checkpoint, on rank 0; its state, on all ranks); both are None if there is no checkpoint.
    """
    checkpoint = None
    if logdir.checkpoint is not None and logdir.checkpoint_dir is not None:
        checkpoint = choosing.newest(logdir.checkpoint_dir)
        check_config(options, checkpoint)
    return checkpoint, runner.share(None if checkpoint is None else dict(checkpoint.state))


def shared_seed(spec: ModelSpec, state: Mapping[str, Any] | None, runner: Runner) -> int:
    """Returns the run's seed, the same on all ranks: that of the state to resume from, else that of the config."""
    seed = spec.params.get("random_seed")
    if state is not None and state["random_seed"] != seed:
        if seed is not None:
            deco_print(f"random_seed is {seed} in the config, but this run started with {state['random_seed']}, which "
                       "is kept.")
        seed = state["random_seed"]
    return runner.share(int(time.time()) if seed is None else int(seed))


def build_models(specs: Mapping[str, ModelSpec], seed: int, runner: Runner,
                 earlier: RunInputs | None = None) -> Models:
    """Builds the training model and, if the config has one, the model for evaluation during training.

    Args:
      specs: the specs of the models, by section.
      seed: the run's seed.
      runner: the run's runner.
      earlier: inputs of the models that the run had built before, if any.

    Raises:
      UserError: see ``build_model`` and ``RunInputs``.
    """
    assets = read_assets(specs["train"]) if earlier is None else {
        asset.path: asset for asset in earlier.assets.values()}
    with runner.scope():
        model = build_model(specs["train"], seed)
        eval_model = build_model(specs["eval"], variables_of=model) if "eval" in specs else None
    return Models(model, eval_model, RunInputs(model, eval_model, assets))


def make_trainer(options: RunOptions, models: Models, logdir: LogDir, seed: int, runner: Runner) -> Trainer:
    """Returns the trainer of a run; a collective operation.

    Args:
      options: options of the run.
      models: result of ``build_models``.
      logdir: log directory for the checkpoints.
      seed: the run's seed.
      runner: the run's runner.
    """
    model, eval_model, inputs = models
    for section, built in (("train", model), ("eval", eval_model)):
        if built is not None:
            check_data(runner, section, built.data_layer.lengths, built.data_layer.costs)
    saver = None
    if logdir.checkpoint_dir is not None:
        config = options.config
        saver = RunSaver(logdir.checkpoint_dir, logdir.run, model.params,
                         as_comment(config.config_file.data_note) + to_yaml(config.as_sections()), inputs,
                         logdir.root / START_MARK if logdir.root else None)
        with config.config_file.in_use():
            keep_files(saver.directory, config.base_model,
                       {mode: config.merge(mode)[0] for mode in ("train", *MODES)})
    summaries_dir = str(logdir.checkpoint_dir) if saver and model.params["save_summaries_steps"] else None
    metrics = MetricsFile(logdir.checkpoint_dir) if logdir.checkpoint_dir else None
    with runner.scope():
        trainer = Trainer(model, eval_model, runner, seed, saver, summaries_dir, metrics,
                          _trackers(options, model, logdir) if saver else ())
    if eval_model is not None:
        best = trainer.early_stopping.metric
        trainer.early_stopping.resume(runner.share({} if metrics is None else metrics.history(best)))
    elif model.params["average_after_evals_without_gain"] is not None:
        deco_print("WARNING: 'average_after_evals_without_gain' has no effect without evaluations: use "
                   "--mode=train_eval.")
    return trainer


def _trackers(options: RunOptions, model: Model, logdir: LogDir) -> list[Tracker]:
    title = logdir.root.resolve().name if logdir.root else ""
    params = flattened(to_plain(options.config.params("train"))) if model.params["trackers"] else {}
    return [tracker(logdir.run, title, params) for tracker in model.params["trackers"]]


def start(trainer: Trainer, logdir: LogDir, checkpoint: Checkpoint | None, state: Mapping[str, Any] | None) -> None:
    """Sets the initial weights on all ranks: those of a checkpoint, those of a base model, or random ones.

    Args:
      trainer: the trainer of this process.
      logdir: the log directory, on rank 0.
      checkpoint: the checkpoint to resume from, on rank 0; None without one.
      state: the checkpoint's state, on all ranks; None without one.
    """
    for line in trainer.describe_shapes():
        deco_print(line)
    if logdir.begins_anew:
        deco_print(f"{logdir.root} holds only the start of this run, without a checkpoint: the run begins anew.")
    if state is None:
        trainer.early_stopping.rewind(0)  # evaluations of a start that is begun anew
    if trainer.rate_scale != 1:
        deco_print(f"lr_scale_with_world: the policy's learning rate is multiplied by {trainer.rate_scale}")
    if checkpoint is not None:
        restore_run(trainer, checkpoint)
        deco_print(f"Restored checkpoint from {checkpoint.path}. Resuming training at step {trainer.step}")
    elif state is not None:
        restore_position(trainer, state)
    elif logdir.base_checkpoint is not None:
        load_base_model(trainer.model, trainer.state, logdir.base_checkpoint)
        deco_print("Starting training from the base model")
    else:
        deco_print("Starting training from scratch")
    if trainer.metrics is not None:
        trainer.metrics.rewind(trainer.step, not awaits_evaluation(trainer))
    trainer.synchronize()
    trainer.is_settled = state is not None  # a checkpoint's state is, and settling it again could change its last bits


def nothing_left(trainer: Trainer, logdir: LogDir) -> bool:
    """Returns whether the run has already finished; in this case, also prints a message.

    A run that was stopped during its last evaluation, or before its average was complete, has not finished.
    """
    if not trainer.finished or awaits_evaluation(trainer):
        return False
    saver = trainer.saver
    if trainer.saves and trainer.model.params["average_checkpoints"] and not trainer.runner.share(
            saver is None or saver.has_average(trainer.step, trainer.eval_model is not None)):
        return False
    if trainer.early_stopping.has_ended:
        deco_print(f"Nothing left to do: {trainer.early_stopping}; raise stop_after_evals_without_gain to continue "
                   "training.")
    else:
        deco_print(f"Nothing left to do: the run in {logdir.root} already made {trainer.step} of "
                   f"{trainer.last_step} steps; raise max_steps or num_epochs to continue training.")
    return True


def finish(trainer: Trainer, signum: int | None) -> None:
    """Finishes a run after its last update, or after the signal that stopped it."""
    with tracked(trainer):
        if signum is None:
            _finish(trainer)
        else:
            remaining = "no step is left" if trainer.finished else "resume with --continue_learning"
            deco_print(f"Stopped at step {trainer.step}; {remaining}.")
    close_trackers(trainer.trackers, "finished" if signum is None else "stopped")


def _finish(trainer: Trainer) -> None:
    if trainer.saves and trainer.model.params["average_checkpoints"]:
        _average(trainer)
    if trainer.early_stopping.has_ended:
        deco_print(f"Training ended early, at step {trainer.step}: {trainer.early_stopping}")
    best = None
    if trainer.saver is not None:
        trainer.saver.remove_start_mark()
        best = trainer.saver.best_result()
    deco_print(f"Finished training at step {trainer.step}"
               + (f"; best {best[0]}: {best[1]:.4f} at step {best[2]}" if best else ""))


def _average(trainer: Trainer) -> None:
    average = None
    if trainer.saver is not None:
        average = trainer.saver.average(trainer.model.params["average_checkpoints"], trainer.optimizer.rate_jumps)
        assign_matching(trainer.variables, average.weights)
        deco_print(f"Averaged the last {len(average.state['averaged'])} checkpoints: {trainer.saver.averaged_dir}")
    trainer.synchronize()
    if trainer.eval_model is not None:
        metrics = trainer.evaluate(keep_best=False)
        if trainer.saver is not None and average is not None and metrics:
            trainer.saver.note_average(average, metrics)
