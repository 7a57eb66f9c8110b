"""Checks a run from config to updates (``--check``), prints the findings, and estimates the time of a training."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.checkpoints import choosing
from open_seq2seq.checkpoints.inputs import RunInputs
from open_seq2seq.config.resolve import RunOptions
from open_seq2seq.data.batch_loader import DEFAULT_PREFETCH
from open_seq2seq.models.builder import ModelSpec, build_model
from open_seq2seq.models.model import Model
from open_seq2seq.models.results import cut_remarks
from open_seq2seq.run.logdir import check_logdir
from open_seq2seq.run.overview import print_parameter_table, warn_of_shared_files, warn_of_warm_up
from open_seq2seq.run.restoring import check_config
from open_seq2seq.runners import Runner
from open_seq2seq.training.loop.divergence import Divergence
from open_seq2seq.training.loop.hooks import Hook
from open_seq2seq.training.loop.passes import EvaluationPass
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils.console import deco_print, format_count, format_time
from open_seq2seq.utils.posix import resource

_UPDATES, _SECONDS = 10, 4.0  # at least so many updates, and for so long, unless they take longer than _MOST_SECONDS
_MOST_SECONDS = 20.0
_UNCERTAINTY = 0.2  # at least; of the time of an update, because other programs use the machine, too


class _Enough(Exception):
    """Enough updates have been timed."""


class _Stopwatch(Hook):
    """Measures the seconds of each update, except the first, for which the loader has made nothing in advance."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._began = time.perf_counter()
        self._before: float | None = None

    def after_step(self, trainer: Any, results: dict[str, Any]) -> None:
        float(results["loss"])  # waits for the device
        now = time.perf_counter()
        if self._before is not None or now - self._began > _MOST_SECONDS:
            self.seconds.append(now - (self._began if self._before is None else self._before))
        self._before, passed = now, now - self._began
        enough = len(self.seconds) >= DEFAULT_PREFETCH + _UPDATES and passed > _SECONDS
        if self.seconds and (enough or passed > _MOST_SECONDS):
            raise _Enough

    def lasting(self) -> list[float]:
        """Returns the seconds of updates that are as long as later ones.

        The first updates are shorter if the loader is slower than the device, because it made their batches while the
        first update was compiled. At most half of the updates are left out.
        """
        return self.seconds[min(DEFAULT_PREFETCH, (len(self.seconds) - 1) // 2):]


def time_remark(trainer: Trainer, eval_model: Model | None, state: Mapping[str, Any] | None = None) -> str:
    """Makes updates and evaluates for some seconds, and returns a line with the estimated time of the training.

    The weights change; nothing is written.

    Args:
      trainer: the trainer of the run, before its first update.
      eval_model: the model for evaluations; None if the run has none.
      state: the state of the checkpoint from which the run is resumed; None if it begins anew.
    """
    if trainer.runner.num_processes > 1:
        return "Time: not estimated for several processes; --benchmark measures their speed"
    watch = _Stopwatch()
    try:
        trainer.run_steps([watch])
    except _Enough:
        pass
    except Divergence:
        return "Time: not estimated, because the first updates diverge"
    if not watch.seconds:
        return "Time: not estimated, because training has too few updates"
    step = 0 if state is None else int(state["step"])
    if state is not None:  # the last step is another one if the number of replicas, or iter_size, has changed
        trainer.resume(step, int(state["micro_batch"]))
    updates, seconds = max(trainer.last_step - step, 0), watch.lasting()
    mean, error = _mean_and_error(seconds)
    total, uncertainty = updates * mean, updates * error
    parts = f"{format_count(updates, 'update')} of {_brief(mean)}, measured on {len(seconds)}"
    if eval_model is not None:
        every = eval_model.params["eval_steps"]
        evaluations = -(-trainer.last_step // every) - step // every if updates else 0
        seconds, timed, rounds = EvaluationPass(eval_model, trainer.runner).time_rounds(_SECONDS, _MOST_SECONDS)
        mean, error = _mean_and_error(seconds)
        total, uncertainty = total + evaluations * rounds * mean, uncertainty + evaluations * rounds * error
        parts += (f", and {format_count(evaluations, 'evaluation')} of {_brief(rounds * mean)}, measured on "
                  f"{timed:,} of {rounds:,} batch{'es' * (rounds > 1)}")
    low, high = format_time(total - uncertainty), format_time(total + uncertainty)
    return f"Time: about {format_time(total)} ({low} to {high}) for {parts}"


def _brief(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else format_time(seconds)


def _mean_and_error(seconds: Sequence[float]) -> tuple[float, float]:
    mean = float(np.mean(seconds))
    return mean, min(max(2 * float(np.std(seconds)) / len(seconds) ** 0.5, _UNCERTAINTY * mean), 0.9 * mean)


_EXAMPLES = 200  # number of examples that are read, from the start of each data set


def check_run(options: RunOptions, specs: dict[str, ModelSpec], runner: Runner) -> None:
    """Builds the mode's models, reads the first examples, makes updates in training, and prints the findings.

    Args:
      options: options of the run.
      specs: the specs of the models, by section.
      runner: the run's runner.

    Raises:
      UserError: the run would fail; the message says why.
    """
    owner = trainer = None
    built: dict[str, Model] = {}
    for section, spec in specs.items():
        with runner.scope():
            model = build_model(spec, variables_of=owner)
        built[section] = model
        if section == "train":
            owner = model
        _check_data(section, model)
        if section == "train":
            with runner.scope():
                trainer = Trainer(model, None, runner, seed=spec.params.get("random_seed") or 0)
            _check_training(trainer, options.verbose)
            if not options.benchmark:
                warn_of_warm_up(trainer)
    if owner is not None:
        warn_of_shared_files(owner, built.get("eval"))
    state = None
    if options.continue_learning and owner is not None and runner.is_chief:
        state = _check_resuming(options, owner, built.get("eval"))
    if trainer is not None and not options.benchmark:
        deco_print("Measuring the time of some updates" + (" and of evaluation" if "eval" in built else ""))
        deco_print(time_remark(trainer, built.get("eval"), state))
    deco_print("The config can be run.")


def _check_resuming(options: RunOptions, model: Model, eval_model: Model | None) -> Mapping[str, Any] | None:
    """Prints what has changed since the checkpoint to resume from; returns its state, or None if there is none."""
    logdir = check_logdir(options, model.params)
    if logdir.checkpoint is None or logdir.checkpoint_dir is None:
        return None
    checkpoint = choosing.newest(logdir.checkpoint_dir)
    check_config(options, checkpoint)
    RunInputs(model, eval_model, {}).check(checkpoint)
    return checkpoint.state


def _check_data(section: str, model: Model) -> None:
    layer = model.data_layer
    if section == "interactive_infer":
        return
    deco_print(f"Data for {section}: {layer.num_examples:,} examples")
    for reason, count in layer.report_dropped().items():
        deco_print(f"dropped {count:,}: {reason}", offset=1)
    for line in [*layer.remarks(), *cut_remarks(layer), *layer.examine()]:
        deco_print(line, offset=1)
    first = np.arange(min(_EXAMPLES, layer.num_examples))
    batch = layer.make_batch(first)
    shapes = ", ".join(str(tuple(a.shape)) for a in tf.nest.flatten(batch["source_tensors"]))
    deco_print(f"the first {len(first)} examples are readable: source shapes {shapes}", offset=1)


def _check_training(trainer: Trainer, verbose: bool) -> None:
    if verbose:
        print_parameter_table(trainer.trainable, trainer.variables)
    else:
        total = sum(v.shape.num_elements() for v in trainer.trainable.values())
        deco_print(f"Total trainable parameters: {total:,} (--verbose lists the variables)")
    batches, largest = trainer.describe_epoch()
    deco_print(f"Batches per epoch: {batches:,}; total updates: {trainer.last_step:,}")
    for line in trainer.describe_shapes():
        deco_print(line, offset=1)
    megabytes = 2 ** 20
    weights = sum(4 * v.shape.num_elements() for v in trainer.variables.values())
    slots = sum(v.shape.num_elements() * v.dtype.size for v in trainer.optimizer.state().values())
    deco_print(f"Memory: weights {weights / megabytes:,.0f} MiB, optimizer {slots / megabytes:,.0f} MiB")
    before = _peak_bytes()
    trainer.try_batch(largest)
    after = _peak_bytes()
    if before is None or after is None:
        return
    more = (after - before) / megabytes
    deco_print(f"One step on the batch with the longest example ({len(largest)} examples) increased the peak memory by "
               f"{more:,.0f} MiB to {after / megabytes:,.0f} MiB", offset=1)


def _peak_bytes() -> int | None:
    """Returns the peak memory in bytes so far, of the first GPU or else of the process; None if it is unknown."""
    if tf.config.list_logical_devices("GPU"):
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    return None if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
