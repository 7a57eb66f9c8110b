"""Lines for the terminal: every line of the toolkit starts with ``*** ``."""

from __future__ import annotations

import os
import sys
from typing import TextIO


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
