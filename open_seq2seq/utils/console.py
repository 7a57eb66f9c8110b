"""Prints lines that start with ``*** ``, and a progress bar below them, on a terminal and in a notebook.

Failures of standard streams do not end a run. Messages name options of the command line, or arguments of Python.
"""

from __future__ import annotations

import contextlib
import contextvars
import io
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO, TypeVar

from open_seq2seq.utils.errors import ConfigError, UserError

_ARGUMENTS = {"continue_learning": "resume=True", "infer_files": "files", "infer_output_file": "output_file",
              "config_file": "config", "mode=train_eval": "evaluate=True", "trust_code": "trust_code=True",
              "no_dir_check": "no_dir_check=True", "check": "check()", "verbose": "verbose=True",
              "bench_steps": "steps", "bench_start": "start"}
_OPTION = re.compile(rf"--({'|'.join(_ARGUMENTS)})\b(?!/)|--(?=[a-z])")
_speaks_python = contextvars.ContextVar("speaks_python", default=False)
Item = TypeVar("Item")

_INTERVAL = 0.5  # seconds between two drawings
_SHORTEST, _LONGEST = 10, 40  # minimum and maximum number of columns of the bar
_ERASE = "\r\x1b[K"  # moves the cursor to the beginning of the line and erases the line

_bars: list[Bar] = []  # the bar that is on the terminal, or no bar


def deco_print(line: str, offset: int = 0) -> None:
    """Prints one line with the toolkit's prefix.

    Args:
      line: the text; if it has several lines, each gets the prefix.
      offset: indentation in steps of three spaces.
    """
    for bar in list(_bars):  # erased, and drawn again at its next update
        bar.hide()
    prefix = "*** " + "   " * offset
    text = ("\n" + prefix).join(worded(line).split("\n"))
    sys.stdout.write(prefix + text + "\n")
    sys.stdout.flush()


class EnduringStream:
    """A text stream whose failures (no reader, a full disk, a stream that was never open) do not end a run.

    Text that cannot be written is lost, with a single warning. Characters that the encoding lacks are escaped.

    Args:
      stream: the underlying stream; None if it is closed.
      name: name of the stream, for the warning.

    Attributes:
      needed: whether the output is the purpose of the command. If so, a failure ends the command, silently if the
        reader closed the pipe, as ``head`` does.
    """

    def __init__(self, stream: TextIO | None, name: str) -> None:
        self._is_closed = stream is None
        self._stream = open(os.devnull, "w", encoding="utf-8") if stream is None else stream  # noqa: SIM115
        self._name, self._has_failed = name, False
        self.needed = False

    def write(self, text: str) -> int:
        """Writes text and returns its length; if that fails, discards it or, with ``needed``, ends the command."""
        encoding = self._stream.encoding or "utf-8"
        plain = text.encode(encoding, "backslashreplace").decode(encoding)
        self._attempt(lambda: self._stream.write(plain))
        return len(text)

    def flush(self) -> None:
        """Writes buffered text; if that fails, discards it or, with ``needed``, ends the command."""
        self._attempt(self._stream.flush)

    def close(self) -> None:
        """Closes the stream."""
        self._attempt(self._stream.close)

    def finish(self) -> None:
        """Flushes for the last time, so that the interpreter's flush at exit cannot fail."""
        self.needed = False
        self.flush()
        if self._has_failed and not self._is_closed:  # redirect it, because the interpreter flushes it again
            with contextlib.suppress(OSError, ValueError), open(os.devnull, "w", encoding="utf-8") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            if self._is_closed:
                raise OSError("it is closed")
            action()
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            self._fail(error)
        except RuntimeError:  # a signal handler prints while a write to this stream is in progress; its text is lost
            pass

    def _fail(self, error: OSError | ValueError) -> None:
        reason = getattr(error, "strerror", None) or str(error)
        if self.needed:
            self.needed, self._has_failed = False, True  # only once, because reporting the error flushes again
            if isinstance(error, BrokenPipeError):
                raise SystemExit(128 + signal.SIGPIPE) from None
            raise UserError(f"{self._name} cannot be written: {reason}.") from error
        if not self._has_failed:
            self._has_failed = True
            if sys.stderr is not self:
                sys.stderr.write(f"WARNING: {self._name} cannot be written ({reason}): the run continues without it.\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def enduring_output(needed: bool = False) -> Iterator[None]:
    """Context manager in which failures of stdout and stderr do not end the process, and a closed stdin reads as empty.

    Args:
      needed: whether the command exists to write to stdout, so that a failure of stdout ends it; see ``need_output``.
    """
    _fill_closed_descriptors()
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdout = output = EnduringStream(sys.stdout, "Standard output")  # type: ignore[assignment]
    sys.stderr = errors = EnduringStream(sys.stderr, "Standard error")  # type: ignore[assignment]
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    output.needed = needed
    try:
        yield
    finally:
        output.finish()
        errors.finish()
        sys.stdin, sys.stdout, sys.stderr = before


def need_output(needed: bool) -> None:
    """Sets whether stdout is the purpose of the command.

    It is if stdout gets results, and it is not if stdout only gets the progress of training. Messages on stderr never
    are.
    """
    if isinstance(sys.stdout, EnduringStream) and sys.stdout is not sys.stderr:
        sys.stdout.needed = needed


def print_to_stderr() -> None:
    """Makes this process print everything to stderr from now on, so that stdout contains only results."""
    sys.stdout.flush()
    sys.stdout = sys.stderr


def _fill_closed_descriptors() -> None:
    """Opens closed descriptors of standard streams, so that files opened later do not get their numbers.

    Each becomes the read end of a pipe without a writer, which reads as empty and cannot be written.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            reading, writing = os.pipe()  # ``reading`` gets the lowest free number, i.e. ``descriptor``
            os.close(writing)
            os.set_inheritable(reading, True)


_muted: list[TextIO] = []


def mute() -> None:
    """Discards everything that this process prints to stdout from now on."""
    sys.stdout.flush()
    _muted.append(sys.stdout)
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open until it is unmuted)


def unmute() -> None:
    """Reverts ``mute``; does nothing if the process is not muted."""
    if _muted:
        sys.stdout.close()
        sys.stdout = _muted[0]
        _muted.clear()


def worded(text: str) -> str:
    """Returns a message in the words of the caller: unchanged for the command line.

    >>> with in_python():
    ...     worded("give --continue_learning or --dtype=mixed")
    'give resume=True or dtype=mixed'
    """
    if not _speaks_python.get():
        return text
    return _OPTION.sub(lambda option: _ARGUMENTS.get(option[1] or "", ""), text.replace(" See --help.", ""))


@contextlib.contextmanager
def in_python() -> Iterator[None]:
    """Context manager in which messages and errors name arguments of Python instead of options of the command line."""
    before = _speaks_python.set(True)
    try:
        yield
    except UserError as error:
        if isinstance(error, ConfigError):
            error.problems = [worded(problem) for problem in error.problems]
        error.args = tuple(worded(str(argument)) for argument in error.args)
        raise
    finally:
        _speaks_python.reset(before)


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
            _bars[:] = [self]

    def hide(self) -> None:
        """Erases the bar until the next ``update``."""
        if self in _bars:
            _bars.clear()
            self._stream.write(_ERASE)
            self._stream.flush()


def _drawn(done: int, total: int, width: int) -> str:
    from rich.console import Console  # slow to import, and not needed without a terminal
    from rich.progress_bar import ProgressBar

    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=width, color_system="standard", legacy_windows=False)
    console.print(ProgressBar(total=total, completed=min(done, total), width=width), end="")
    return text.getvalue().rstrip("\n")


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
