"""Built-in hooks, which print progress and samples, write summaries, save, and evaluate between updates."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from open_seq2seq.training.hooks import Hook
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils.console import deco_print


def hooks_of(trainer: Trainer) -> list[Hook]:
    """Returns the hooks that a config enables, in the order in which they are called; user-defined hooks come last."""
    params, is_chief = trainer.model.params, trainer.runner.is_chief
    hooks: list[Hook] = []
    if params["print_loss_steps"] and is_chief:
        hooks.append(ProgressHook(params["print_loss_steps"]))
    if params["save_checkpoint_steps"] and trainer.saves:  # saves before the other hooks, which may raise errors
        hooks.append(CheckpointHook(params["save_checkpoint_steps"]))
    if params["print_samples_steps"] and is_chief:
        hooks.append(SamplesHook(params["print_samples_steps"]))
    if params["save_summaries_steps"]:
        hooks.append(SummaryHook(params["save_summaries_steps"], params["summaries"]))
    hooks.append(BenchmarkHook(params["bench_start"], params["print_bench_info_steps"]))
    if trainer.eval_model is not None:
        hooks.append(EvaluationHook(trainer.eval_model.params["eval_steps"]))
    return hooks + [hook(train_model=trainer.model, eval_model=trainer.eval_model) for hook in params["hooks"]]


def format_time(seconds: float) -> str:
    """Formats a number of seconds as ``H:MM:SS``."""
    whole = int(round(max(seconds, 0.0)))
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


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


class ProgressHook(Hook):
    """Prints the loss, speed, input wait and time left after the first update and every ``print_loss_steps`` updates.

    On a terminal, a line that is updated in place shows them between these updates too.
    """

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every
        self._losses: list[Any] = []
        self._scaling: dict[str, Any] = {}
        self._live = sys.stdout.isatty()
        self._last_live = 0.0

    def begin(self, trainer: Trainer) -> None:
        self._meter = Meter(trainer)
        if trainer.runner.num_processes > 1:  # mpiexec gives rank 0 a terminal, but mixes the output of all ranks
            self._live = False

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        self._losses.append(results["loss"])
        self._scaling = {name: results[name] for name in ("loss_scale", "skipped")}
        if trainer.step % self._every == 0 or trainer.step == 1:
            self._clear()
            deco_print(self._line(trainer))
            self._meter.restart()
            self._losses.clear()
        elif self._live and time.perf_counter() - self._last_live > 0.5:
            self._last_live = time.perf_counter()
            sys.stdout.write("\r\x1b[K" + self._line(trainer))
            sys.stdout.flush()

    def end(self, trainer: Trainer) -> None:
        self._clear()

    def _clear(self) -> None:
        if self._live:
            sys.stdout.write("\r\x1b[K")

    def _line(self, trainer: Trainer) -> str:
        per_step, speed, wait = self._meter.read()
        epoch = f"Epoch {trainer.epoch}, global step" if trainer.steps_per_epoch else "Global step"
        left = format_time(per_step * (trainer.last_step - trainer.step))
        losses = np.array([float(value) for value in self._losses])
        # A non-finite loss is reported separately, and must not hide the losses after the recovery.
        loss = np.mean(losses[np.isfinite(losses)]) if np.isfinite(losses).any() else losses[-1]
        scaling = self._scaling_text(trainer.in_half)
        return (f"{epoch} {trainer.step}: train loss {loss:.4f}, {scaling}time per step {per_step:.3f}s, "
                f"{speed:,.0f} {trainer.model.object_name}/s, input wait {100 * wait:.1f}%, time left {left}")

    def _scaling_text(self, in_half: bool) -> str:
        """Returns the loss scale and number of skipped updates; in float32, only the latter, and only if not 0."""
        scale, skipped = float(self._scaling["loss_scale"]), int(self._scaling["skipped"])
        if not in_half:
            return f"skipped {skipped}, " if skipped else ""
        return f"loss scale {f'{scale:.0f}' if scale >= 1.0 else f'{scale:.3g}'}, skipped {skipped}, "


class BenchmarkHook(Hook):
    """Measures the average speed, without the first ``bench_start`` updates of the process.

    The speed is printed every ``print_bench_info_steps`` updates and at the end.
    """

    def __init__(self, start: int, every: int | None) -> None:
        super().__init__()
        self._first, self._every = start, every
        self._meter: Meter | None = None

    def begin(self, trainer: Trainer) -> None:
        self._first += trainer.step
        if self._first == trainer.step:
            self._meter = Meter(trainer)
        self._started_at = trainer.step

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.step == self._first:
            self._meter = Meter(trainer)
        elif self._meter and self._every and trainer.step % self._every == 0:
            deco_print(f"Avg {trainer.model.object_name} per second: {self._meter.read()[1]:,.3f}")

    def end(self, trainer: Trainer) -> None:
        if self._meter is None or trainer.step <= self._first:
            deco_print("Not enough steps for benchmarking")
            return
        per_step, speed, wait = self._meter.read()
        deco_print(f"Avg time per step: {per_step:.3f}s")
        deco_print(f"Avg {trainer.model.object_name} per second: {speed:,.3f}")
        deco_print(f"Input wait: {100 * wait:.1f}% of step time")


class SamplesHook(Hook):
    """Prints a sample of the current batch every ``print_samples_steps`` updates."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.step % self._every == 0:
            trainer.print_samples()


class SummaryHook(Hook):
    """Writes TensorBoard summaries every ``save_summaries_steps`` updates."""

    def __init__(self, every: int, names: list[str]) -> None:
        super().__init__()
        self._every, self._names = every, names

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.step % self._every == 0 and trainer.summaries is not None:
            epoch = trainer.epoch if trainer.steps_per_epoch else None
            trainer.summaries.write_training(trainer.step, results, self._names, epoch)


class CheckpointHook(Hook):
    """Saves a checkpoint every ``save_checkpoint_steps`` updates and at the end."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.step % self._every == 0:
            trainer.save_checkpoint()

    def end(self, trainer: Trainer) -> None:
        trainer.save_checkpoint()
        trainer.wait_for_checkpoint()


class EvaluationHook(Hook):
    """Evaluates every ``eval_steps`` updates and at the end, and saves the best models."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every
        self._evaluated_at = -1

    def after_step(self, trainer: Trainer, results: dict[str, Any]) -> None:
        if trainer.step % self._every == 0:
            self._evaluate(trainer)

    def end(self, trainer: Trainer) -> None:
        if trainer.finished and self._evaluated_at != trainer.step:
            self._evaluate(trainer)

    def _evaluate(self, trainer: Trainer) -> None:
        self._evaluated_at = trainer.step
        trainer.evaluate()
