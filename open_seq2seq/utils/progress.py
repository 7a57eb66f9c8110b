"""A progress bar below the printed lines, drawn by the library rich; only on a terminal and in a notebook."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

Item = TypeVar("Item")

_INTERVAL = 0.5  # seconds between two drawings
_SHORTEST, _LONGEST = 10, 40  # minimum and maximum number of columns of the bar
_ERASE = "\r\x1b[K"  # moves the cursor to the beginning of the line and erases the line

_shown: list[Bar] = []  # the bar that is on the terminal, or no bar


def _redraws() -> bool:
    """Returns whether a line of the output can be drawn again: on a terminal, or in a notebook."""
    try:
        return sys.stdout.isatty() or type(sys.stdout).__module__ == "ipykernel.iostream"
    except ValueError:  # standard output was closed
        return False


class Bar:
    """A line with a text and a progress bar that is redrawn in place, on a terminal or in a notebook.

    Args:
      total: number of units of the whole work.
      shows: whether the bar may be drawn; False if another process draws its bar on the same terminal.
    """

    def __init__(self, total: int, shows: bool = True) -> None:
        # A copy of the output in a log file must not contain the bar.
        self._stream: TextIO = getattr(sys.stdout, "terminal", sys.stdout)
        self._total, self._shows = max(total, 1), shows and _redraws()
        self._drawn_at = time.perf_counter()

    @property
    def is_due(self) -> bool:
        """Whether ``update`` would draw the bar now; lets callers avoid computing its text."""
        return self._shows and time.perf_counter() - self._drawn_at > _INTERVAL

    def update(self, done: int, text: str) -> None:
        """Draws the text and the bar, at most twice a second.

        Args:
          done: number of finished units of ``total``.
          text: text before the bar, cut off at the width of the terminal.
        """
        if self.is_due:
            self._drawn_at = time.perf_counter()
            width = shutil.get_terminal_size().columns - 1
            room = min(width - len(text) - 1, _LONGEST)
            bar = f" {_drawn(done, self._total, room)}" if room >= _SHORTEST else ""
            self._stream.write(f"{_ERASE}{text[:width]}{bar}")
            self._stream.flush()
            _shown[:] = [self]

    def hide(self) -> None:
        """Erases the bar until the next ``update``."""
        if self in _shown:
            _shown.clear()
            self._stream.write(_ERASE)
            self._stream.flush()


def _drawn(done: int, total: int, width: int) -> str:
    from rich.console import Console  # slow to import, and not needed without a terminal
    from rich.progress_bar import ProgressBar

    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=width, color_system="standard", legacy_windows=False)
    console.print(ProgressBar(total=total, completed=min(done, total), width=width), end="")
    return text.getvalue().rstrip("\n")


def hide_bars() -> None:
    """Erases the bar that is shown, before a line is printed; the bar's next update draws it again."""
    for bar in list(_shown):
        bar.hide()


def tracked(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """Yields the items, and shows a progress bar with the label ``what``; ``total`` is the number of items."""
    bar = Bar(total)
    try:
        for number, item in enumerate(items, 1):
            yield item
            if bar.is_due:
                bar.update(number, f"{what}: {number:,} of {total:,}")
    finally:
        bar.hide()


def format_time(seconds: float) -> str:
    """Formats a number of seconds as ``42 s``, ``22 min`` or ``3 h 42 min``."""
    whole = int(round(max(seconds, 0.0)))
    if whole < 100:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def format_count(number: int, noun: str) -> str:
    """Returns a count with its noun, in the plural unless the count is 1: ``1,234 examples``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
