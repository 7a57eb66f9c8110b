"""A program of another toolkit, perhaps in another interpreter, that makes a round of passes on each request."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measuring.processes import Failure
from open_seq2seq.utils.errors import UserError


class PeerProcess:
    """Makes a round of passes, and returns their mean duration in seconds, each time it is called.

    Args:
      program: ``torch_networks`` or ``keras_resnet``. For each line on its stdin, it makes ``steps`` passes and prints
        their mean duration.
      options: options of the benchmark; ``torch_python`` names an interpreter that has PyTorch.
      more: additional options.

    Raises:
      UserError: the interpreter cannot be run.
    """

    def __init__(self, program: str, options: argparse.Namespace, **more: Any) -> None:
        python = options.torch_python if program.startswith("torch") else sys.executable
        command = [python, "-m", f"benchmarks.measuring.{program}", json.dumps({**vars(options), **more})]
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
            raise Failure("The program of another toolkit ended; its own message is above.")
        return float(answer)

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()  # closes stdin, which ends the process
