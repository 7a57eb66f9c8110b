"""SIGINT and SIGTERM ask a training to save and stop; a second one stops it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

from open_seq2seq.utils.console import deco_print


class StopRequest:
    """Context in which the two signals only set ``signum``, for the loop to see between updates."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self._before: dict[int, object] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self.signum is not None

    def __enter__(self) -> StopRequest:
        # Python lets only the main thread set handlers; elsewhere (a notebook's worker) signals stay as they are.
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                self._before[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is not None:
            raise KeyboardInterrupt
        self.signum = signum
        deco_print(f"{signal.Signals(signum).name}: saving a checkpoint after this step, then stopping.")
