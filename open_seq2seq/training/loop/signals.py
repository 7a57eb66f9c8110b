"""Handles SIGINT, SIGTERM and SIGHUP: training saves a checkpoint and stops; a later SIGINT stops it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

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
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signum != signal.SIGHUP or signal.getsignal(signum) is not signal.SIG_IGN:
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
