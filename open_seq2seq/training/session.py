"""One run of the command: from checked options to a trained, evaluated or decoded result."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from open_seq2seq.config.options import RunOptions
from open_seq2seq.config.serialize import to_plain, to_yaml
from open_seq2seq.models.builder import ModelSpec, build_model, describe_section
from open_seq2seq.models.model import Model
from open_seq2seq.optimizers.dtype import resolve_dtype
from open_seq2seq.parts.component import named_variables
from open_seq2seq.runners import Runner, make_runner, one_device
from open_seq2seq.runners.preflight import check_agreement, check_data, time_limit
from open_seq2seq.runners.watchdog.watchdog import watched
from open_seq2seq.training import saving
from open_seq2seq.training.changed_config import check_config
from open_seq2seq.training.checkpoints import Checkpoint
from open_seq2seq.training.interactive import InteractiveModel, prompt
from open_seq2seq.training.kept_files import keep_files
from open_seq2seq.training.logdir import LogDir, LogDirLock, check_logdir
from open_seq2seq.training.passes import EvaluationPass, InferencePass
from open_seq2seq.training.precision_choice import settle_precision
from open_seq2seq.training.process import set_up_process
from open_seq2seq.training.protected_files import protected_files
from open_seq2seq.training.recovery import PrecisionLowered, keep_restart, kept_dtype
from open_seq2seq.training.report import print_config, print_parameter_table
from open_seq2seq.training.run_inputs import RunInputs, check_read, read_assets
from open_seq2seq.training.run_logs import RunLogs
from open_seq2seq.training.trainer import Trainer
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.output_file import never_written


class Models(NamedTuple):
    """The models of a training run.

    Attributes:
      train: the one that is trained.
      eval: the one that is evaluated in between, or None.
      inputs: what they have read.
    """

    train: Model
    eval: Model | None
    inputs: RunInputs


TITLES = {"train": "Training config", "eval": "Evaluation config", "infer": "Inference config",
           "interactive_infer": "Inference config"}


def run(options: RunOptions) -> int:
    """Carries out one command.

    Returns:
      The exit code: 0, or 128 + the number of the signal that stopped a training.

    Raises:
      UserError: the user's mistake, in one sentence.
    """
    specs = describe_sections(options)
    if options.elastic:
        from open_seq2seq.training.elastic import train_elastically

        return train_elastically(options, specs)
    first = specs[options.config.sections[0]]
    interactive = options.mode == "interactive_infer"
    params = one_device(first.full_params) if interactive else first.full_params
    runner = make_runner(params)
    if interactive and runner.world_size > 1:
        raise UserError("The mode interactive_infer talks to one process: start it without mpiexec or horovodrun, and "
                        "without TF_CONFIG.")
    notes = runner.describe() + set_up_process([spec.params for spec in specs.values()])
    with time_limit(params["connect_seconds"]):
        notes += check_agreement(runner, what_counts(options), resolve_dtype(params["dtype"]).compute.name)
    with contextlib.ExitStack() as stack:
        stack.enter_context(watched(runner, params["watchdog_seconds"]))
        if options.check:
            from open_seq2seq.training.check import check_run

            for note in notes:
                deco_print(note)
            return check_run(options, settle_precision(specs, runner), runner)
        logdir = open_logdir(options, first, stack) if runner.is_chief else LogDir(None)
        title = "New benchmarking config" if options.benchmark else None
        for section, spec in specs.items():
            print_config(title or TITLES[section], spec.params)
        for note in notes:
            deco_print(note)
        if options.mode in ("train", "train_eval"):
            return _train(options, specs, logdir, runner)
        first = settle_precision(specs, runner)[options.config.sections[0]]
        model = _restored_model(options, first, logdir, runner)
        if options.mode == "eval":
            deco_print("Running evaluation on a validation set:")
            EvaluationPass(model, runner).run(report_progress=True)
            deco_print("Finished evaluation")
        elif options.mode == "infer":
            with never_written(lambda: protected_files(options, model)):
                InferencePass(model, runner).run(options.infer_output_file)
            deco_print(f"Finished inference: {os.path.abspath(options.infer_output_file)}")
        else:
            prompt(InteractiveModel(model))
    return 0


def what_counts(options: RunOptions) -> dict[str, Any]:
    """Returns what all ranks have to agree on, as plain values."""
    flags = {name: getattr(options, name) for name in
             ("mode", "continue_learning", "no_dir_check", "benchmark", "enable_logs", "elastic", "check")}
    return {**flags, **to_plain(options.config.as_sections())}


def describe_sections(options: RunOptions) -> dict[str, ModelSpec]:
    """Returns the description of the model of each config section that the mode needs."""
    return {section: describe_section(options.config, section) for section in options.config.sections}


def open_logdir(options: RunOptions, spec: ModelSpec, stack: contextlib.ExitStack) -> LogDir:
    """Checks the log directory, and holds it as long as the stack does; for the chief alone."""
    if options.mode in ("train", "train_eval"):
        stack.enter_context(LogDirLock(spec.params.get("logdir") or None))
    logdir = check_logdir(options, spec.params)
    if options.enable_logs and logdir.root is not None:
        stack.enter_context(RunLogs(logdir.root, options.config_file, options.argv))
    return logdir


def _seed(spec: ModelSpec, state: Mapping[str, Any] | None) -> int:
    given = spec.params.get("random_seed")
    if state is not None and state["random_seed"] != given:
        stored = int(state["random_seed"])
        if given is not None:
            deco_print(f"random_seed is {given} but this run began with {stored}, which is kept.")
        return stored
    return int(time.time()) if given is None else int(given)


def resumed(options: RunOptions, logdir: LogDir,
            runner: Runner) -> tuple[Checkpoint | None, dict[str, Any] | None]:
    """Returns (the checkpoint to go on from, in the chief's process; its state, in all processes); None without one.

    The chief alone reads files of the logdir; the others, perhaps on other hosts, hear of them.
    """
    checkpoint = saving.newest(logdir) if logdir.checkpoint is not None else None
    if checkpoint is not None:
        check_config(options, checkpoint)
    return checkpoint, runner.share(None if checkpoint is None else dict(checkpoint.state))


def shared_seed(spec: ModelSpec, state: Mapping[str, Any] | None, runner: Runner) -> int:
    """Returns the run's seed, the same in all processes: that of the state it goes on from, or the config's."""
    return runner.share(_seed(spec, state))


def _train(options: RunOptions, specs: dict[str, ModelSpec], logdir: LogDir, runner: Runner) -> int:
    checkpoint, state = resumed(options, logdir, runner)
    logdir = logdir.of_run(state)
    specs = settle_precision(specs, runner, state)
    seed = shared_seed(specs["train"], state, runner)
    if state is not None and (dtype := kept_dtype(specs["train"].params, state)):
        deco_print(f"dtype: this run fell back to {dtype}, which is kept as long as on_divergence is lower_precision")
        specs = _in_dtype(specs, dtype)
    models = build_models(specs, seed, runner)
    trainer = make_trainer(options, models, logdir, seed, runner)
    start(trainer, logdir, checkpoint, state)
    if nothing_left(trainer, logdir):
        return 0
    while True:
        try:
            signum = trainer.train()
            break
        except PrecisionLowered as lowered:
            restart = lowered.restart
        # Out of the except clause, whose error holds the trainer: two of them need twice the memory.
        inputs = models.inputs
        del trainer, models
        gc.collect()
        specs = _in_dtype(specs, str(restart.dtype))
        models = build_models(specs, seed, runner, inputs)
        trainer = make_trainer(options, models, logdir, seed, runner)
        restart.put_into(trainer)
        keep_restart(trainer, restart)
    return finish(trainer, signum)


def nothing_left(trainer: Trainer, logdir: LogDir) -> bool:
    """Whether a run that is about to start has been finished before; says so."""
    if trainer.finished:
        deco_print(f"Nothing left to do: the run in {logdir.root} already made {trainer.step} of "
                   f"{trainer.last_step} steps; raise max_steps or num_epochs to train on.")
    return trainer.finished


def build_models(specs: dict[str, ModelSpec], seed: int, runner: Runner, earlier: RunInputs | None = None) -> Models:
    """Builds the model that is trained, and the one that is evaluated in between, where there is one.

    Args:
      specs: their descriptions.
      seed: the run's.
      runner: who computes.
      earlier: what the run has read before, where it builds its models anew.

    Raises:
      UserError: see ``build_model`` and ``RunInputs``.
    """
    before = read_assets(specs["train"])
    with runner.scope():
        model = build_model(specs["train"], seed)
        eval_model = build_model(specs["eval"], variables_of=model) if "eval" in specs else None
    return Models(model, eval_model, RunInputs(model, eval_model, before, earlier))


def make_trainer(options: RunOptions, models: Models, logdir: LogDir, seed: int, runner: Runner) -> Trainer:
    """Makes what trains a model with a runner; a collective operation.

    Args:
      options: of the run.
      models: what ``build_models`` returned.
      logdir: where checkpoints go.
      seed: the run's.
      runner: who computes.
    """
    model, eval_model, inputs = models
    for section, built in (("train", model), ("eval", eval_model)):
        if built is not None:
            check_data(runner, section, built.data_layer.lengths, built.data_layer.costs)
    saver = None
    if logdir.root is not None:
        saver = saving.RunSaver(logdir, model, to_yaml(options.config.as_sections()), inputs)
        with options.config.config_file.in_use():
            keep_files(saver.directory, options.config.base_model,
                       {mode: options.config.merge(mode)[0] for mode in ("train", "infer", "interactive_infer")})
    summaries_dir = str(logdir.checkpoint_dir) if saver and model.params["save_summaries_steps"] else None
    with runner.scope():
        return Trainer(model, eval_model, runner, seed, saver, summaries_dir)


def _in_dtype(specs: dict[str, ModelSpec], dtype: str) -> dict[str, ModelSpec]:
    deco_print(resolve_dtype(dtype).note)
    return {name: dataclasses.replace(spec, params={**spec.params, "dtype": dtype}) for name, spec in specs.items()}


def finish(trainer: Trainer, signum: int | None) -> int:
    """Does what is left to do after the last update, or after the signal that stopped it; returns the exit code."""
    if signum is not None:
        deco_print(f"Stopped at step {trainer.step}; go on with --continue_learning.")
        return 128 + signum
    if trainer.saves and trainer.model.params["average_checkpoints"]:
        _average(trainer)
    deco_print("Finished training")
    return 0


def start(trainer: Trainer, logdir: LogDir, checkpoint: Checkpoint | None, state: Mapping[str, Any] | None) -> None:
    """Gives all processes the weights that training begins with: a checkpoint's, another model's, or the initial ones.

    Args:
      trainer: of this process.
      logdir: the chief's log directory.
      checkpoint: to go on from, in the chief's process.
      state: its state, in all processes.
    """
    print_parameter_table(trainer.trainable, trainer.variables)
    for line in trainer.describe_shapes():
        deco_print(line)
    if trainer.rate_scale != 1:
        deco_print(f"lr_scale_with_world: the policy's learning rate times {trainer.rate_scale}")
    if checkpoint is not None:
        saving.restore_run(trainer, checkpoint)
        deco_print(f"Restored checkpoint from {checkpoint.path}. Resuming training at step {trainer.step}")
    elif state is not None:
        saving.take_up(trainer, state)
    elif logdir.base_checkpoint is not None:
        saving.load_base_model(trainer, logdir.base_checkpoint)
        deco_print("Starting training from the base model")
    else:
        deco_print("Starting training from scratch")
    trainer.synchronize()


def _average(trainer: Trainer) -> None:
    if trainer.saver is not None:
        count = trainer.saver.average(trainer, trainer.model.params["average_checkpoints"])
        deco_print(f"Averaged the last {count} checkpoints: {trainer.saver.averaged_dir}")
    trainer.synchronize()
    if trainer.eval_model is not None:
        trainer.evaluate(keep_best=False)


def _restored_model(options: RunOptions, spec: ModelSpec, logdir: LogDir, runner: Runner) -> Model:
    before = read_assets(spec)
    with runner.scope():
        model = build_model(spec)
    check_read(model, before)
    if runner.world_size > 1:  # interactive inference, which has no examples, runs in one process
        check_data(runner, model.mode, model.data_layer.lengths, model.data_layer.costs)
    if runner.is_chief:
        checkpoint = saving.finished(logdir, model.params, options.config.config_file.checkpoint)
        check_config(options, checkpoint)
        saving.restore_weights(model, checkpoint)
    runner.broadcast(named_variables(model))
    return model


def load_model(options: RunOptions) -> Model:
    """Builds and restores the model of an inference mode, for use from Python."""
    spec = describe_sections(options)[options.mode]
    set_up_process([spec.params])
    runner = Runner()
    spec = settle_precision({options.mode: spec}, runner)[options.mode]
    return _restored_model(options, spec, check_logdir(options, spec.params), runner)
