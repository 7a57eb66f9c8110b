"""What ends a training early: signals, after which it saves a checkpoint, and evaluations without gain."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import Any

from open_seq2seq.checkpoints.run_saver import value_of
from open_seq2seq.utils.console import deco_print


class StopRequest:
    """Context manager in which the first signal only sets ``signum``, which the loop checks between updates.

    After the first signal, SIGTERM and SIGHUP are ignored, because terminals and launchers send several signals. SIGINT
    (Ctrl-C) then raises KeyboardInterrupt, for users who do not want to wait. If SIGHUP is ignored on entry, as under
    ``nohup``, it stays ignored.

    Args:
      saves: whether training saves a checkpoint when it stops; for the message only.

    Attributes:
      signum: number of the first signal, or None.
    """

    def __init__(self, saves: bool = True) -> None:
        self._what = "saving a checkpoint after this step, then stopping" if saves else "stopping after this step"
        self.signum: int | None = None
        self._before: dict[int, object] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal has been received."""
        return self.signum is not None

    def __enter__(self) -> StopRequest:
        # Only the main thread may set handlers; in other threads, as in some notebooks, signals are left as they are.
        if threading.current_thread() is threading.main_thread():
            hang_up = getattr(signal, "SIGHUP", None)
            for signum in filter(None, (signal.SIGINT, signal.SIGTERM, hang_up)):
                if signum != hang_up or signal.getsignal(signum) is not signal.SIG_IGN:
                    self._before[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for signum, handler in self._before.items():  # a handler of None was set by C code; Python cannot restore it
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)  # type: ignore[arg-type]

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is None:
            self.signum = signum
            deco_print(f"{signal.Signals(signum).name}: {self._what}.")
        elif signum == signal.SIGINT:
            raise KeyboardInterrupt


class EarlyStopping:
    """Decides after each evaluation whether training ends.

    Args:
      params: the model's parameters, of which ``stop_after_evals_without_gain``, ``best_metric`` and
        ``best_metric_mode`` are used.

    Attributes:
      metric: name of the metric that is compared, ``best_metric``.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._most = params["stop_after_evals_without_gain"]
        self.metric = params["best_metric"]
        self._sign = 1.0 if params["best_metric_mode"] == "max" else -1.0
        self._values: dict[int, float] = {}

    def resume(self, values: Mapping[int, float]) -> None:
        """Sets the results of the evaluations that the run has made so far, by step."""
        self._values = dict(sorted(values.items()))

    def rewind(self, step: int) -> None:
        """Forgets the evaluations after ``step``, from which training continues."""
        self._values = {at: value for at, value in self._values.items() if at <= step}

    def awaits(self, step: int) -> bool:
        """Returns whether an evaluation after this step would count and has not been made."""
        return self._most is not None and step > 0 and step not in self._values

    def observe(self, step: int, metrics: Mapping[str, float]) -> None:
        """Records the result of an evaluation.

        Raises:
          ConfigError: ``best_metric`` is not among the metrics.
        """
        if self._most is not None:
            self._values[step] = value_of(self.metric, metrics)

    @property
    def best(self) -> tuple[int, float] | None:
        """(step, value) of the best evaluation so far, the first of equal ones; None without one. NaN is left out."""
        scores = {step: self._sign * value for step, value in self._values.items() if value == value}
        step = max(scores, key=lambda at: (scores[at], -at)) if scores else None
        return None if step is None else (step, self._values[step])

    @property
    def has_ended(self) -> bool:
        """Whether at least ``stop_after_evals_without_gain`` evaluations have followed the best one.

        False if this parameter is None.
        """
        best = self.best
        since = len(self._values) if best is None else sum(step > best[0] for step in self._values)
        return self._most is not None and since >= self._most

    def __str__(self) -> str:
        best = "" if self.best is None else f"; the best was {self.best[1]:.4f} at step {self.best[0]}"
        return f"{self._most} evaluations in a row brought no gain in {self.metric}{best}"
