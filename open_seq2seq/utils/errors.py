"""Errors that are reported to the user.

The command line reports every subclass of ``UserError`` as a short message (what is wrong, where, how to fix it), with
exit code 2 and without a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake that the user can fix; the text is the complete message."""


class ConfigError(UserError):
    """One or more problems in a config, shown together.

    Args:
      problems: one sentence each.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class DataError(UserError):
    """Data that cannot be used; the message names the file and the line if the data come from a file."""


class CheckpointError(UserError):
    """A checkpoint that is missing, cannot be written or read, or does not fit the model or the run."""


class CheckpointAccessError(CheckpointError):
    """A checkpoint that cannot be read because access rights are missing; it is not damaged."""


class NoGraphForm(UserError):
    """A function of raw inputs that operations of TensorFlow cannot compute, so that no export can contain it."""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name most similar to ``name``, or None if none is similar."""
    matches = difflib.get_close_matches(name, [str(k) for k in known], n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns ``" Did you mean 'x'?"``, or an empty string if no known name is similar."""
    match = nearest_name(name, known)
    return f" Did you mean '{match}'?" if match else ""
