"""SIGINT, SIGTERM and SIGHUP ask a training to save and stop; a second SIGINT stops it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

from open_seq2seq.utils.console import deco_print


class StopRequest:
    """Context in which the signals only set ``signum``, for the loop to see between updates.

    Further signals change nothing, because terminals and launchers send several, except for a second Ctrl-C, which
    comes from a person who does not want to wait. A SIGHUP that is ignored, as under ``nohup``, stays ignored.
    """

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
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signum != signal.SIGHUP or signal.getsignal(signum) is not signal.SIG_IGN:
                    self._before[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for signum, handler in self._before.items():  # None: set by C code, which Python cannot restore
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)  # type: ignore[arg-type]

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is None:
            self.signum = signum
            deco_print(f"{signal.Signals(signum).name}: saving a checkpoint after this step, then stopping.")
        elif signum == signal.SIGINT:
            raise KeyboardInterrupt
