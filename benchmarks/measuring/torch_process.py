"""A PyTorch program in another interpreter that makes one pass on each request."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring.processes import Failure


class TorchProcess:
    """Makes a pass of a program, and returns its duration in seconds, each time it is called.

    Args:
      python: an interpreter that has PyTorch.
      program: name of a file beside this one. For each line on its stdin, it makes a pass and prints its duration.
      arguments: arguments of the program.
    """

    def __init__(self, python: str, program: str, arguments: Sequence[object]) -> None:
        self._process = subprocess.Popen([python, str(Path(__file__).parent / program), *map(str, arguments)],
                                         text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise Failure("The PyTorch program ended; its own message is above.")
        return float(answer)

    def stop(self) -> None:
        """Ends the process by closing its stdin."""
        self._process.communicate()
