"""A PyTorch program in another interpreter that makes one pass on each request."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring.processes import Failure
from open_seq2seq.utils.errors import UserError


class TorchProcess:
    """Makes a pass of a program, and returns its duration in seconds, each time it is called.

    Args:
      python: an interpreter that has PyTorch.
      program: name of a module beside this one. For each line on its stdin, it makes a pass and prints its duration.
      arguments: arguments of the program.

    Raises:
      UserError: the interpreter cannot be run.
    """

    def __init__(self, python: str, program: str, arguments: Sequence[object]) -> None:
        command = [python, "-m", f"benchmarks.measuring.{program}", *map(str, arguments)]
        try:
            self._process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
        except OSError as error:
            raise UserError(f"--torch_python={python} cannot be run ({error.strerror}): name an interpreter that has "
                            "PyTorch.") from None

    def __call__(self) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the process has ended, as the missing answer shows
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise Failure("The PyTorch program ended; its own message is above.")
        return float(answer)

    def __enter__(self) -> TorchProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the process by closing its stdin."""
        self._process.communicate()
