"""One run, from checked options to the end of training, evaluation or inference."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from open_seq2seq.checkpoints import choosing
from open_seq2seq.checkpoints.folders import AVERAGED, BEST_MODELS, DIVERGENCE, KEPT_FILES, LOGS, SAMPLES
from open_seq2seq.checkpoints.inputs import RunInputs, read_assets
from open_seq2seq.checkpoints.packed import unpacked
from open_seq2seq.config.overrides import Override
from open_seq2seq.config.resolve import RunOptions
from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.builder import ModelSpec, build_model
from open_seq2seq.models.model import Model
from open_seq2seq.models.results import open_results
from open_seq2seq.optimizers.dtype import resolve_dtype
from open_seq2seq.parts.component import named_variables
from open_seq2seq.run import training_setup
from open_seq2seq.run.dry_run import check_run
from open_seq2seq.run.elastic_session import train_elastically
from open_seq2seq.run.logdir import LOCK, LogDir, check_logdir
from open_seq2seq.run.overview import print_model, print_task, print_training, write_overview
from open_seq2seq.run.resolution import check_verb, resolve_run
from open_seq2seq.run.restoring import check_config, restore_weights
from open_seq2seq.runners import Runner, make_runner, on_this_machine, one_device
from open_seq2seq.runners.preflight import check_data, time_limit
from open_seq2seq.runners.processor_speed import settle_precision
from open_seq2seq.runners.watchdog import watched
from open_seq2seq.training.loop.passes import EvaluationPass, InferencePass, print_title
from open_seq2seq.training.recovery.recovery import PrecisionLowered, kept_dtype
from open_seq2seq.training.train import train
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import NAMES_OF_COPIES
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.given_files import arriving_lines
from open_seq2seq.utils.output_file import STANDARD_OUTPUT, never_written

# Folders and files that runs, also with --enable_logs, create directly in a log directory.
_MADE_FOLDERS = ("model.ckpt-*", BEST_MODELS, AVERAGED, KEPT_FILES, DIVERGENCE, SAMPLES, LOGS, "config_*")
_MADE_FILES = (LOCK, "state.json", "*.safetensors", "config.yaml", "assets/*", "events.out.tfevents.*", "config_*",
               "cmd-args_*", "git-info_*", "stdout_*", "stderr_*", "overview.txt*", "metrics.csv*", "report.html",
               "comparison.html", "README.md")
_MOST_LINES = 4096  # maximum number of lines processed together; sorting so many by length avoids nearly all padding


def protected_files(options: RunOptions, model: Model) -> Iterator[str]:
    """Yields the names of files that no output of a run may overwrite; not all of them have to exist.

    These are the config file and its bases, every string in the config, the files of ``--infer_files``, the data files
    that contain one example each, packed models, and the files that runs have written to ``logdir`` and ``load_model``.
    """
    yield from options.config.config_file.files
    yield from options.infer_files
    yield from list(NAMES_OF_COPIES.values())
    yield from _texts(options.config.config_file.sections)
    yield from _texts(model.params)
    yield from _texts(model.data_layer.params)
    yield from model.data_layer.example_files()
    for one in (model, *(model.ensemble.others if model.ensemble else ())):
        for name in ("logdir", "load_model"):
            if folder := one.params.get(name):
                yield from _made_in(Path(folder).expanduser())


def _texts(value: Any) -> Iterator[str]:
    """Yields all strings in a nested value, as any of them may be the name of a file."""
    if isinstance(value, str):
        yield value
        yield os.path.expanduser(value)
    elif isinstance(value, (Mapping, list, tuple)):
        items: Iterable[Any] = value.values() if isinstance(value, Mapping) else value
        for item in items:
            yield from _texts(item)


def _made_in(folder: Path) -> Iterator[str]:
    for pattern in _MADE_FILES:
        yield from map(str, folder.glob(pattern))
    for pattern in _MADE_FOLDERS:
        for path in folder.glob(pattern):
            for place, _, names in os.walk(path):
                yield from (os.path.join(place, name) for name in names)


Specs = dict[str, ModelSpec]


class Outcome(NamedTuple):
    """How a run ended.

    Attributes:
      signum: number of the signal that stopped training; None if it was not stopped.
      metrics: the metrics of the last evaluation, by name; {} without one.
    """

    signum: int | None = None
    metrics: dict[str, float] = {}


def run(options: RunOptions) -> Outcome:
    """Does what the options say.

    Raises:
      UserError: the user made a mistake, which the message describes.
    """
    specs = training_setup.describe_sections(options)
    if options.elastic:
        return Outcome(*train_elastically(options, specs))
    spec = next(iter(specs.values()))
    runner, notes = _start_process(options, specs)
    with contextlib.ExitStack() as stack:
        if runner.num_processes > 1:
            stack.enter_context(watched(runner, spec.full_params["watchdog_seconds"]))
        if options.check:
            for note in notes:
                deco_print(note)
            check_run(options, settle_precision(specs, runner), runner)
            return Outcome()
        logdir = training_setup.open_logdir(options, spec, stack) if runner.is_chief else LogDir(None)
        print_task(options, specs, notes)
        if options.mode in ("train", "train_eval"):
            return _train(options, specs, logdir, runner)
        model, _, path = _restored_model(options, specs, logdir, runner)
        if options.mode == "eval":
            print_title(model, f"of {path}")
            metrics = EvaluationPass(model, runner).run(report_progress=True)
            deco_print("Finished evaluation")
            return Outcome(metrics=metrics)
        _infer(options, model, runner)
    return Outcome()


def _start_process(options: RunOptions, specs: Specs) -> tuple[Runner, list[str]]:
    """Makes the runner, applies process-wide settings, and checks that all ranks agree; also returns lines to print."""
    params = next(iter(specs.values())).full_params
    if not options.mode.startswith("train"):
        # These concern training alone.
        params = {**params, "on_divergence": "stop", "sync_batch_norm": False, "hvd_compression": None}
        if options.config.config_file.checkpoint is not None:
            params = on_this_machine(params, [one.keys[0] for one in options.config.overrides])
    runner = make_runner(one_device(params) if options.mode == "interactive_infer" else params)
    if options.mode == "interactive_infer" and runner.world_size > 1:
        raise UserError("The mode interactive_infer runs in one process: start it without mpiexec or horovodrun, and "
                        "without TF_CONFIG.")
    notes = runner.describe() + training_setup.set_up_process([spec.params for spec in specs.values()])
    if runner.num_processes > 1:
        with time_limit(params["connect_seconds"]):
            notes += training_setup.check_processes(options, params, runner)
    return runner, notes


def _infer(options: RunOptions, model: Model, runner: Runner) -> None:
    """Writes results to the output file; in the mode ``interactive_infer`` without files, answers at a prompt."""
    output = options.infer_output_file
    if options.mode == "interactive_infer" and not options.infer_files:
        prompt(TrainedModel(model))
        return
    with never_written(lambda: protected_files(options, model)):
        if options.mode == "infer":
            InferencePass(model, runner).run(output)
        else:
            answer_lines(TrainedModel(model), output)
    deco_print("Finished inference. Results: "
               f"{'standard output' if output == STANDARD_OUTPUT else os.path.abspath(output)}")


def prompt(model: TrainedModel) -> None:
    """Reads lines from standard input until it ends, and prints the model's answer to each.

    On a terminal, the answer to a line that cannot be used is a message, and the next line can be typed.

    Raises:
      UserError: standard input is not a terminal, and a line cannot be used.
    """
    on_terminal = sys.stdin.isatty()
    if on_terminal:
        deco_print(f"{model.model.interactive_hint}; end with Ctrl-D.")
    while True:
        try:
            line = input("> " if on_terminal else "")
        except EOFError:
            return
        if line.strip():
            try:
                print(model.model.prompt_answer(model.infer([line])[0]), flush=True)
            except UserError as error:
                if not on_terminal:
                    raise
                print(f"Error: {error}", file=sys.stderr, flush=True)
        elif not on_terminal:
            print(flush=True)  # an empty answer, so that answers and lines correspond


def answer_lines(model: TrainedModel, output_file: str) -> None:
    """Writes the result of each line of standard input as soon as it is known.

    Lines that arrive while others are processed are processed together afterwards.

    Args:
      model: the model.
      output_file: path of the file for the results.

    Raises:
      UserError: standard input is empty, or the results cannot be written.
      DataError: a line cannot be used.
    """
    count = 0
    with open_results(model.model, output_file) as writer:
        for lines in arriving_lines(_MOST_LINES):
            writer.write_batches([list(enumerate(model.infer(lines, count), count))])
            count += len(lines)
        if not count:
            raise UserError("--infer_files - reads from standard input, but standard input is empty: "
                            "give at least one line.")


def _train(options: RunOptions, specs: Specs, logdir: LogDir, runner: Runner) -> Outcome:
    checkpoint, state = training_setup.resumed(options, logdir, runner)
    logdir = logdir.of_run(state)
    specs = settle_precision(specs, runner, state)
    seed = training_setup.shared_seed(specs["train"], state, runner)
    if state is not None and (dtype := kept_dtype(specs["train"].params, state)):
        deco_print(f"dtype: this run fell back to {dtype}, which is kept as long as on_divergence is lower_precision")
        specs = _in_dtype(specs, dtype)
    models = training_setup.build_models(specs, seed, runner)
    trainer = training_setup.make_trainer(options, models, logdir, seed, runner)
    overview = print_training(options, specs, trainer, logdir.checkpoint_dir)
    training_setup.start(trainer, logdir, checkpoint, state)
    write_overview(overview)
    if training_setup.nothing_left(trainer, logdir):
        return Outcome(metrics=trainer.last_metrics)
    while True:
        try:
            signum = train(trainer)
            break
        except PrecisionLowered as lowered:
            restart, dtype = lowered.restart, lowered.dtype
        # The next trainer is made outside the except clause, in which the exception keeps this trainer in memory.
        inputs, signum = models.inputs, trainer.stop.signum
        del trainer, models
        gc.collect()
        specs = _in_dtype(specs, dtype)
        models = training_setup.build_models(specs, seed, runner, inputs)
        trainer = training_setup.make_trainer(options, models, logdir, seed, runner)
        trainer.stop.signum = signum  # a signal that came during the last update
        restart.put_into(trainer)
    training_setup.finish(trainer, signum)
    return Outcome(signum, trainer.last_metrics)


def _in_dtype(specs: Specs, dtype: str) -> Specs:
    deco_print(resolve_dtype(dtype).note)
    # Without ``loss_scaling``, the scale is 1 from now on, which has no arguments.
    return {name: dataclasses.replace(spec, params={
        **spec.params, "dtype": dtype, **({} if spec.params.get("loss_scaling") else {"loss_scaling_params": None})})
        for name, spec in specs.items()}


def _restored_model(options: RunOptions, specs: Specs, logdir: LogDir, runner: Runner) -> tuple[Model, ModelSpec, str]:
    """Returns the model with the weights of a checkpoint, its spec, and the checkpoint's path ("" except on rank 0)."""
    spec = settle_precision(specs, runner)[options.mode]
    path, assets = "", read_assets(spec)
    with runner.scope(), _explaining_data(options):
        model = build_model(spec)
    if options.verb is not None:
        check_verb(model, options.verb, str(logdir.root))
    inputs = RunInputs(model, None, assets)
    if runner.world_size > 1 and model.mode != "interactive_infer":  # which has no examples
        check_data(runner, model.mode, model.data_layer.lengths, model.data_layer.costs)
    if runner.is_chief:
        folder = logdir.checkpoint_dir if logdir.checkpoint is not None else None
        checkpoint = choosing.for_inference(folder, model.params, options.config.config_file.checkpoint)
        model.validates = check_config(options, checkpoint)
        restore_weights(model, inputs, checkpoint)
        path = str(checkpoint.path)
    variables = named_variables(model)
    runner.broadcast(variables)
    print_model(model, variables, runner, options.verbose)
    if options.members:
        model.join(dict(_member(member, runner) for member in options.members))
    for name, other in model.needed_models(model.params).items():
        needed = resolve_run(None, "interactive_infer", [Override(None, ("logdir",), unpacked(other))])
        model.use(name, _member(needed, runner)[1])
    return model, spec, path


def _member(options: RunOptions, runner: Runner) -> tuple[str, Model]:
    """Returns the log directory of a model of an ensemble, and the model with its weights."""
    specs = training_setup.describe_sections(options)
    logdir = check_logdir(options, specs[options.mode].params)
    return str(logdir.root), _restored_model(options, specs, logdir, runner)[0]


@contextlib.contextmanager
def _explaining_data(options: RunOptions) -> Iterator[None]:
    """Adds a note on how to give other data to data errors, if the config is that of a checkpoint."""
    try:
        yield
    except DataError as error:
        if options.config.config_file.checkpoint is not None and not options.infer_files:
            how = "--infer_files=FILE" if options.mode == "infer" else "--eval_params/data_layer_params/KEY=FILE"
            error.add_note(f"The config is that of the checkpoint: give other data with {how}.")
        raise


_dropped: list[str] = []  # checkpoints of loaded models that are no longer used, but may still take up memory


def load(options: RunOptions) -> TrainedModel:
    """Builds the model of a mode that does not train, and restores its weights.

    Raises:
      UserError: there is no usable checkpoint, or the config is invalid.
    """
    if _dropped:  # models consist of reference cycles, of which Python would let several accumulate
        _dropped.clear()
        gc.collect()
    specs = training_setup.describe_sections(options)
    params = specs[options.mode].params
    training_setup.set_up_process([params])
    model, spec, path = _restored_model(options, specs, check_logdir(options, params), Runner())
    trained = TrainedModel(model, spec, path)
    weakref.finalize(trained, _dropped.append, path)
    return trained
