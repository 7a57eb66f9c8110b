"""The words of messages: options of the command line, or arguments of Python."""

from __future__ import annotations

import contextlib
import contextvars
import re
from collections.abc import Iterator

from open_seq2seq.utils.errors import ConfigError, UserError

_ARGUMENTS = {"continue_learning": "resume=True", "infer_files": "files", "infer_output_file": "output_file",
              "config_file": "config", "mode=train_eval": "evaluate=True", "trust_code": "trust_code=True",
              "no_dir_check": "no_dir_check=True", "check": "check()", "verbose": "verbose=True",
              "bench_steps": "steps", "bench_start": "start"}
_OPTION = re.compile(rf"--({'|'.join(_ARGUMENTS)})\b(?!/)|--(?=[a-z])")

_speaks_python = contextvars.ContextVar("speaks_python", default=False)


def worded(text: str) -> str:
    """Returns a message in the words of the caller: unchanged for the command line.

    >>> with in_python():
    ...     worded("give --continue_learning or --dtype=mixed")
    'give resume=True or dtype=mixed'
    """
    if not _speaks_python.get():
        return text
    return _OPTION.sub(lambda option: _ARGUMENTS.get(option[1] or "", ""), text).replace(" See --help.", "")


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
