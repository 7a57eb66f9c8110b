"""Estimates how long a training will take on this machine, from a few of its updates."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from open_seq2seq.data.batch_loader import DEFAULT_PREFETCH
from open_seq2seq.models.model import Model
from open_seq2seq.training.loop.divergence import Divergence
from open_seq2seq.training.loop.hooks import Hook
from open_seq2seq.training.loop.passes import EvaluationPass
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils.progress import format_count, format_time

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


def time_remark(trainer: Trainer, eval_model: Model | None) -> str:
    """Makes updates and evaluates for some seconds, and returns a line with the estimated time of the training.

    The weights change; nothing is written.

    Args:
      trainer: the trainer of the run, before its first update.
      eval_model: the model for evaluations; None if the run has none.
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
    updates, seconds = trainer.last_step, watch.lasting()
    mean, error = _mean_and_error(seconds)
    total, uncertainty = updates * mean, updates * error
    parts = f"{format_count(updates, 'update')} of {mean:.2g} s, measured on {len(seconds)}"
    if eval_model is not None:
        evaluations = -(-updates // eval_model.params["eval_steps"])
        seconds, rounds = EvaluationPass(eval_model, trainer.runner).time_rounds(_SECONDS, _MOST_SECONDS)
        mean, error = _mean_and_error(seconds)
        total, uncertainty = total + evaluations * rounds * mean, uncertainty + evaluations * rounds * error
        parts += (f", and {format_count(evaluations, 'evaluation')} of {rounds * mean:.2g} s, measured on "
                  f"{len(seconds):,} of {rounds:,} batch{'es' * (rounds > 1)}")
    low, high = format_time(total - uncertainty), format_time(total + uncertainty)
    return f"Time: about {format_time(total)} ({low} to {high}) for {parts}"


def _mean_and_error(seconds: Sequence[float]) -> tuple[float, float]:
    mean = float(np.mean(seconds))
    return mean, min(max(2 * float(np.std(seconds)) / len(seconds) ** 0.5, _UNCERTAINTY * mean), 0.9 * mean)
