"""Lines for the terminal: every line of the toolkit starts with ``*** ``. And streams that nobody may be reading."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from open_seq2seq.utils.errors import UserError


def deco_print(line: str, offset: int = 0, end: str = "\n") -> None:
    """Prints one line with the toolkit's prefix.

    Args:
      line: the text; further lines of a multi-line text get the prefix too.
      offset: indentation in steps of three spaces.
      end: what follows the text.
    """
    prefix = "*** " + "   " * offset
    text = ("\n" + prefix).join(line.split("\n"))
    sys.stdout.write(prefix + text + end)
    sys.stdout.flush()


class EnduringStream:
    """A text stream whose failures end no work: the reader went away, the disk is full, the stream was never open.

    What cannot be written is lost, and a warning says so once. What the encoding lacks is written as an escape.

    Args:
      stream: where text goes; None where it is closed.
      name: for the warning.

    Attributes:
      needed: whether what is written is what the command is for; then a failure ends it, in silence where the
        reader went away, as ``head`` does.
    """

    def __init__(self, stream: TextIO | None, name: str) -> None:
        self._is_closed = stream is None
        self._stream = open(os.devnull, "w", encoding="utf-8") if stream is None else stream  # noqa: SIM115
        self._name, self._has_failed = name, False
        self.needed = False

    def write(self, text: str) -> int:
        """Writes text, or loses it; returns its length."""
        encoding = self._stream.encoding or "utf-8"
        plain = text.encode(encoding, "backslashreplace").decode(encoding)
        self._attempt(lambda: self._stream.write(plain))
        return len(text)

    def flush(self) -> None:
        """Hands on what is buffered, or loses it."""
        self._attempt(self._stream.flush)

    def close(self) -> None:
        """Closes the stream."""
        self._attempt(self._stream.close)

    def finish(self) -> None:
        """Flushes for the last time: the interpreter's own flush at its end finds nothing that could fail."""
        self.needed = False
        self.flush()
        if self._has_failed and not self._is_closed:
            with contextlib.suppress(OSError, ValueError), open(os.devnull, "w", encoding="utf-8") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            if self._is_closed:
                raise OSError("it is closed")
            action()
        except (OSError, ValueError) as error:  # ValueError: somebody closed it
            self._fail(error)
        except RuntimeError:  # a signal's handler, called while this very stream is written
            pass

    def _fail(self, error: OSError | ValueError) -> None:
        reason = getattr(error, "strerror", None) or str(error)
        if self.needed:
            self.needed, self._has_failed = False, True  # once: what reports it flushes
            if isinstance(error, BrokenPipeError):
                raise SystemExit(128 + signal.SIGPIPE) from None
            raise UserError(f"{self._name} cannot be written: {reason}.") from error
        if not self._has_failed:
            self._has_failed = True
            if sys.stderr is not self:
                sys.stderr.write(f"WARNING: {self._name} cannot be written ({reason}): the run goes on without it.\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def enduring_output(needed: bool = False) -> Iterator[None]:
    """Within this context nothing that is printed, by whomever, ends the process; a closed standard input is empty.

    Args:
      needed: whether standard output is what the command is for; see ``need_output``.
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
    """Says whether standard output is what the command is for: figures and answers, not the progress of a training."""
    if isinstance(sys.stdout, EnduringStream):
        sys.stdout.needed = needed


def _fill_closed_descriptors() -> None:
    """Takes the numbers of standard streams that are closed, lest files opened later get them and what is printed.

    Each becomes the end of a pipe without a writer: it reads as empty, and cannot be written.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            reading, writing = os.pipe()  # the lowest number that is free, which is this one
            os.close(writing)
            os.set_inheritable(reading, True)


_muted: list[TextIO] = []


def mute() -> None:
    """Throws away from now on what this process prints; errors, on stderr, still appear."""
    sys.stdout.flush()
    _muted.append(sys.stdout)
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (until it is unmuted, mostly never)


def unmute() -> None:
    """Prints again what this process prints; does nothing where that was never thrown away."""
    if _muted:
        sys.stdout.close()
        sys.stdout = _muted[0]
        _muted.clear()
