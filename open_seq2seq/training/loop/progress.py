"""What a run prints and measures about its progress: the mean loss, the speed, and the time left."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from open_seq2seq.training.loop.hooks import Hook
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.progress import Bar, format_time

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
        if trainer.step % self._every == 0 or trainer.step in (1, trainer.last_step):
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
