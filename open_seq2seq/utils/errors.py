"""Errors that are meant for the person at the keyboard.

Everything derived from ``UserError`` is reported by the command line as one
sentence (what, where, how to fix it) with exit code 2 and without a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake that the user can fix; its text is the whole message."""


class ConfigError(UserError):
    """One or more problems in a config, shown together.

    Args:
      problems: one sentence each.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class DataError(UserError):
    """A data file that cannot be used; the text names file and line."""


class CheckpointError(UserError):
    """A checkpoint that cannot be written, read or matched."""


class CheckpointAccessError(CheckpointError):
    """A checkpoint that is not damaged cannot be read for lack of access rights."""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name most like ``name``, or None when none is close."""
    matches = difflib.get_close_matches(name, [str(k) for k in known], n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns ``" Did you mean 'x'?"``, or an empty string when nothing is close."""
    match = nearest_name(name, known)
    return f" Did you mean '{match}'?" if match else ""
