"""Built-in hooks, which print progress and samples, write summaries, save checkpoints, and evaluate."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from open_seq2seq.training.loop.hooks import Hook
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils.console import Bar, deco_print, format_time

_NOTABLE_WAIT = 0.05  # smallest share of time spent waiting for input that is worth printing


class Meter:
    """Measures time, input wait and consumed objects (such as tokens) since the last ``restart``."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self.restart()

    def restart(self) -> None:
        """Starts a new interval."""
        self._start = time.perf_counter()
        self._step, self._objects = self._trainer.step, self._trainer.objects
        self._waited, self._paused = self._trainer.waited, self._trainer.paused

    def read(self) -> tuple[float, float, float]:
        """Returns (seconds per update, objects per second, share of time spent waiting for input).

        Time spent on evaluation and checkpoints is excluded.
        """
        seconds = max(time.perf_counter() - self._start - (self._trainer.paused - self._paused), 1e-9)
        steps = max(self._trainer.step - self._step, 1)
        waited = self._trainer.waited - self._waited
        return seconds / steps, (self._trainer.objects - self._objects) / seconds, waited / seconds

    def time_left(self) -> float | None:
        """Returns the estimated seconds until the last step, or None if no update has been made since ``restart``.

        Pauses for evaluation and checkpoints are included.
        """
        steps = self._trainer.step - self._step
        seconds = time.perf_counter() - self._start
        return seconds / steps * (self._trainer.last_step - self._trainer.step) if steps > 0 else None


class MeanLoss:
    """Mean loss of the updates since the last ``restart``.

    Losses that are not finite are left out, unless there are no others. They are reported as a divergence, and would
    hide the losses after a recovery.
    """

    def __init__(self) -> None:
        self._losses: list[Any] = []

    def add(self, loss: Any) -> None:
        """Adds the loss of an update, a scalar tensor."""
        self._losses.append(loss)

    def restart(self) -> None:
        """Forgets all losses."""
        self._losses.clear()

    def value(self) -> float:
        """Returns the mean of the losses added so far, at least one; waits for the device."""
        losses = np.array([float(value) for value in self._losses])
        return float(np.mean(losses[np.isfinite(losses)]) if np.isfinite(losses).any() else losses[-1])


class ProgressHook(Hook):
    """Prints a line after step 1, every ``print_loss_steps`` steps and after the last step; shows a bar on a terminal.

    The line has the mean loss since the last multiple of ``print_loss_steps``, the learning rate, the epochs made, the
    speed, and the time left. The first update of the process, which includes the time of tracing, counts neither for
    the speed nor for the time left.

    Args:
      every: ``print_loss_steps``.
    """

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every
        self._loss = MeanLoss()
        self._results: dict[str, Any] = {}

    def begin(self, trainer: Trainer) -> None:
        self._began, self._first = time.perf_counter(), trainer.step + 1
        self._interval = self._run = Meter(trainer)
        # With mpiexec, rank 0 has a terminal, but the output of other ranks would interrupt the bar.
        self._bar = Bar(trainer.last_step, shows=trainer.runner.num_processes == 1)

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        self._loss.add(results["loss"])
        self._results = {name: results[name] for name in ("loss_scale", "skipped", "learning_rate")}
        is_first = trainer.step == self._first
        if trainer.step % self._every == 0 or trainer.step == 1 or trainer.finished:
            deco_print(self._line(trainer, is_first))
            self._interval = Meter(trainer)
        elif self._bar.is_due:
            self._bar.update(trainer.step, self._short_line(trainer))
        if trainer.step % self._every == 0:  # not after the line of step 1: TensorBoard's mean includes step 1, too
            self._loss.restart()
        if is_first:
            self._interval, self._run = Meter(trainer), Meter(trainer)

    def end(self, trainer: Trainer) -> None:
        self._bar.hide()

    def _line(self, trainer: Trainer, is_first: bool) -> str:
        _, speed, wait = self._interval.read()
        left = self._run.time_left()
        if is_first:
            pace = [f"{time.perf_counter() - self._began:.1f} s with compilation"]
        else:
            pace = [f"{speed:,.0f} {trainer.model.object_name}/s"]
            pace += [f"{100 * wait:.0f}% input wait"] if wait >= _NOTABLE_WAIT else []
            # After the last step, an evaluation of unknown duration may follow.
            pace += [] if left is None or trainer.step >= trainer.last_step else [f"{format_time(left)} left"]
        rate = float(self._results["learning_rate"])
        return ", ".join([f"Step {trainer.step}: loss {self._loss.value():.4f}", f"rate {rate:.2g}",
                          *self._scaling(trainer.in_half), f"epoch {trainer.epochs:.2f}", *pace])

    def _short_line(self, trainer: Trainer) -> str:
        """Returns a text that is short enough to fit beside a bar on a terminal of 80 columns."""
        left = self._run.time_left()
        return ", ".join([f"Step {trainer.step}/{trainer.last_step}: loss {self._loss.value():.2f}",
                          f"{self._interval.read()[1]:,.0f} {trainer.model.object_name}/s",
                          *([] if left is None else [f"{format_time(left)} left"])])

    def _scaling(self, in_half: bool) -> list[str]:
        """Returns parts of the line: the loss scale and the number of skipped updates.

        Without loss scaling, only the number of skipped updates is returned, unless it is 0.
        """
        scale, skipped = float(self._results["loss_scale"]), int(self._results["skipped"])
        if not in_half or scale == 1.0:
            return [f"skipped {skipped}"] if skipped else []
        return [f"loss scale {f'{scale:.0f}' if scale >= 1.0 else f'{scale:.3g}'}", f"skipped {skipped}"]


def hooks_of(trainer: Trainer) -> list[Hook]:
    """Returns the hooks that a config enables, in the order in which they are called; user-defined hooks come last."""
    params, is_chief = trainer.model.params, trainer.runner.is_chief
    hooks: list[Hook] = []
    if params["print_loss_steps"] and is_chief:
        hooks.append(ProgressHook(params["print_loss_steps"]))
    # What belongs to a step is written before its checkpoint, so that a run resumed from the checkpoint lacks nothing
    # of it, except the evaluation, which takes long and is made up (``awaits_evaluation``).
    saves = params["save_checkpoint_steps"] if trainer.saves else None
    if saves and trainer.runner.num_processes > 1:
        # So that the state can be saved even if the hooks in between fail; one process can settle it after an error.
        hooks.append(PeriodicHook(saves, lambda trainer: trainer.settle()))
    if every := params["save_summaries_steps"] or params["print_loss_steps"]:
        hooks.append(SummaryHook(every, params["summaries"]))
    if params["print_samples_steps"] and is_chief:
        hooks.append(PeriodicHook(params["print_samples_steps"], lambda trainer: trainer.print_samples()))
    if saves:
        hooks.append(CheckpointHook(saves))
    # --benchmark sets logdir to an empty string.
    hooks.append(BenchmarkHook(params["bench_start"], params["print_bench_info_steps"], params["logdir"] == ""))
    if trainer.eval_model is not None:
        hooks.append(EvaluationHook(trainer.eval_model.params["eval_steps"]))
    return hooks + [hook(train_model=trainer.model, eval_model=trainer.eval_model) for hook in params["hooks"]]


class BenchmarkHook(Hook):
    """Measures the average speed, without the first ``bench_start`` updates of the process.

    The speed is printed every ``print_bench_info_steps`` updates and, if this parameter is set or the run is a
    benchmark, at the end.

    Args:
      start: ``bench_start``, the number of updates that are not measured.
      every: ``print_bench_info_steps``.
      is_purpose: whether the run is a benchmark.
    """

    def __init__(self, start: int, every: int | None, is_purpose: bool = False) -> None:
        super().__init__()
        self._first, self._every, self._is_purpose = start, every, is_purpose
        self._meter: Meter | None = None

    def begin(self, trainer: Trainer) -> None:
        self._first += trainer.step
        if self._first == trainer.step:
            self._meter = Meter(trainer)

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.step == self._first:
            self._meter = Meter(trainer)
        elif self._meter and self._every and trainer.step % self._every == 0:
            deco_print(f"Avg {trainer.model.object_name} per second: {self._meter.read()[1]:,.3f}")

    def end(self, trainer: Trainer) -> None:
        if self._meter is None or trainer.step <= self._first or not (self._is_purpose or self._every):
            return
        per_step, speed, wait = self._meter.read()
        deco_print(f"Avg time per step: {per_step:.3f}s")
        deco_print(f"Avg {trainer.model.object_name} per second: {speed:,.3f}")
        deco_print(f"Input wait: {100 * wait:.1f}% of step time")


class PeriodicHook(Hook):
    """Calls a function of the trainer every few updates.

    Args:
      every: number of updates from one call to the next.
      function: the function.
    """

    def __init__(self, every: int, function: Callable[[Trainer], Any]) -> None:
        super().__init__()
        self._every, self._function = every, function

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.step % self._every == 0:
            self._function(trainer)


class SummaryHook(Hook):
    """Writes TensorBoard summaries, the table of metrics, and to trackers, every ``save_summaries_steps`` updates.

    ``train_loss`` is the mean loss of the updates since the last summary. Without ``save_summaries_steps``, table and
    trackers get the loss and the learning rate every ``print_loss_steps`` updates.
    """

    def __init__(self, every: int, names: list[str]) -> None:
        super().__init__()
        self._every, self._names = every, names
        self._loss = MeanLoss()

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.summaries is None and trainer.metrics is None:
            return
        self._loss.add(results["loss"])
        if trainer.step % self._every == 0:
            scalars = {"train_loss": self._loss.value(), "learning_rate": float(results["learning_rate"])}
            if trainer.summaries is not None:
                epoch = trainer.epoch if trainer.steps_per_epoch else None
                results = {**results, "loss": scalars["train_loss"]}
                scalars |= trainer.summaries.write_training(trainer.step, results, self._names, epoch)
            trainer.write_metrics(scalars)
            self._loss.restart()


class CheckpointHook(PeriodicHook):
    """Saves a checkpoint every ``save_checkpoint_steps`` updates and at the end."""

    def __init__(self, every: int) -> None:
        super().__init__(every, lambda trainer: trainer.save_checkpoint())

    def end(self, trainer: Trainer) -> None:
        trainer.save_checkpoint()
        trainer.wait_for_checkpoint()


class EvaluationHook(PeriodicHook):
    """Evaluates every ``eval_steps`` updates and at the end, and saves the best models; see ``Trainer.evaluate``."""

    def __init__(self, every: int) -> None:
        super().__init__(every, lambda trainer: trainer.evaluate())

    def begin(self, trainer: Trainer) -> None:
        if awaits_evaluation(trainer):
            deco_print("The run was stopped before the evaluation of this checkpoint was complete: it follows now.")
            trainer.evaluate()

    def end(self, trainer: Trainer) -> None:
        if trainer.finished and trainer.evaluated_at != trainer.step:
            trainer.evaluate()


def awaits_evaluation(trainer: Trainer) -> bool:
    """Returns whether the evaluation after the last update is due and incomplete; the same on all ranks.

    A checkpoint is written before the evaluation after its step, so a run that is resumed from it may lack the result,
    on which the best model, averaging of weights and early stopping can depend. A step that a recovery undid is not
    evaluated, unless training ends there.
    """
    step = trainer.step
    if trainer.eval_model is None or step == 0:
        return False
    if trainer.finished:
        return trainer.evaluated_at != step
    is_undone = any(event.get("step") == step for event in trainer.divergence.events)
    return not is_undone and step % trainer.eval_model.params["eval_steps"] == 0 and (
        trainer.evaluated_at != step or trainer.optimizer.awaits(step) or trainer.early_stopping.awaits(step))
