"""Runs the main function of a program in ``scripts/``, and converts the values of its options."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from open_seq2seq.utils.console import enduring_output
from open_seq2seq.utils.environment import problem_of, with_home
from open_seq2seq.utils.errors import UserError, nearest_name
from open_seq2seq.utils.shipped import as_usable
from open_seq2seq.utils.tensorflow_import import import_tensorflow, in_own_process, keep_freed_memory


def run_script(main: Callable[[], None]) -> None:
    """Runs a script's main function; a user error or a system error ends it with a short message and exit code 2.

    Ctrl-C ends it with one line and exit code 130. If the reader of the output closes the pipe, the script ends
    silently, as other programs do.
    """
    keep_freed_memory()  # for scripts that compute with TensorFlow
    in_own_process()
    sys.argv[1:] = map(with_home, sys.argv[1:])
    with enduring_output(needed=True), _mistakes_reported():
        main()


def quiet_tensorflow() -> None:
    """Imports TensorFlow without its log, for scripts that call this before imports that would import it.

    Without TensorFlow, the script ends with a short message and exit code 2.
    """
    with _mistakes_reported():
        import_tensorflow()


@contextlib.contextmanager
def _mistakes_reported() -> Iterator[None]:
    try:
        yield
    except (UserError, OSError) as error:
        sys.stderr.write(f"Error: {problem_of(error) or error}\n")
        raise SystemExit(2) from error
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("open_seq2seq"):
            raise
        sys.stderr.write(f"Error: {sys.executable} has no package {error.name}: activate the environment that the "
                         "toolkit is installed in, or install the package there.\n")
        raise SystemExit(2) from error
    except KeyboardInterrupt as error:
        sys.stderr.write("Interrupted.\n")
        raise SystemExit(130) from error


class ScriptParser(argparse.ArgumentParser):
    """Parser of a script's options whose mistakes are user errors; for an unknown option, it names the nearest one.

    Args:
      description: what ``--help`` says about the script.
    """

    def __init__(self, description: str) -> None:
        program = "python " + "/".join(Path(sys.argv[0]).parts[-2:])
        super().__init__(as_usable(program), description=as_usable(description), allow_abbrev=False,
                         formatter_class=argparse.RawDescriptionHelpFormatter)

    @property
    def options(self) -> list[str]:
        """The options, with dashes in front."""
        return [*self._option_string_actions]

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses arguments, by default those of the process; see ``argparse.ArgumentParser.parse_args``."""
        for word in sys.argv[1:] if args is None else args:
            name = word.partition("=")[0]
            if name.startswith("--") and " " not in name and name not in self._option_string_actions:
                near = nearest_name(name[2:], (option[2:] for option in self._option_string_actions))
                self.error(f"there is no option {name}" + (f": did you mean --{near}?" if near else ""))
        return super().parse_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Raises UserError."""
        message = message[:1].upper() + message[1:]
        raise UserError(message if message.endswith("?") else f"{message}; --help lists the options.")


def finite_float(text: str) -> float:
    """Converts the value of an option to a float, for ``argparse``; refuses NaN and infinity."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return number


def random_seed(text: str) -> int:
    """Converts the value of an option to a seed of random numbers, for ``argparse``; refuses negative numbers."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def check_sizes(args: argparse.Namespace, most: int, *names: str) -> None:
    """Checks options that say how much toy data to make: larger sizes would take hours and help nobody.

    Args:
      args: the command line.
      most: largest value of these options.
      names: the options, without dashes in front.

    Raises:
      UserError: a size is below 0 or above ``most``.
    """
    for name in names:
        if not 0 <= getattr(args, name) <= most:
            raise UserError(f"--{name} is {getattr(args, name)}, but has to be from 0 to {most:,}.")
