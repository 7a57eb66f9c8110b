"""Defines hostile cases: a finished run, a fault in its files, a command, and the expected outcome.

    Case("a bit of the newest weights is flipped", fault=flip("run/model.ckpt-60/weights.safetensors"),
         command=EVALUATE, expect=Said("truncated or altered"))

Every case starts from a fresh copy of a workspace (described in ``workspaces.py``). The fault is applied, the command
runs in a separate process in the workspace's folder, and the judge (``judge.py``) checks the exit code, the output and
every file. The following fail any case, whatever it expects: a changed file of the user's (content, type, name, or
target of a symbolic link), a checkpoint that changed although the command was refused, a traceback, termination by a
signal, a hanging command, and a result that silently differs.

The cases are in lists named ``CASES`` in the files ``tests/hostile/cases_*.py``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CONFIG = "--config_file=config.py"
# Commands on the finished run or in a new logdir. Paths are relative, because commands run in the workspace.
RESUME = (CONFIG, "--mode=train_eval", "--continue_learning", "--max_steps=80")
TRAIN_ANEW = (CONFIG, "--mode=train_eval", "--logdir=new", "--max_steps=20")
CHECK = (CONFIG, "--mode=train", "--check")
EVALUATE = (CONFIG, "--mode=eval")
EVALUATE_BEST = (*EVALUATE, "--restore_best_checkpoint=True")
INFER = (CONFIG, "--mode=infer", "--infer_output_file=out.txt")
# Inference with the config and the files in the newest checkpoint.
INFER_TEXT = ("--mode=infer", "--logdir=run", "--infer_output_file=out.txt", "--infer_files", "dev.src")
INFER_SPEECH = ("--mode=infer", "--logdir=run", "--infer_output_file=out.txt", "--infer_files", "wav/dev-0000.wav")


@dataclass
class Place:
    """A copy of the workspace, to which faults are applied.

    Attributes:
      root: folder of the copy, in which commands run.
      output: file that the command's stdout is redirected to.
      process: process id of the running command, for faults applied while it runs.
    """

    root: Path
    output: Path = Path(os.devnull)
    process: int | None = None

    def __truediv__(self, name: str) -> Path:
        return self.root / name

    @property
    def run(self) -> Path:
        """The logdir of the finished run."""
        return self.root / "run"

    @property
    def home(self) -> Path:
        """The command's HOME; its subfolder ``.cache`` is XDG_CACHE_HOME, and ``tmp`` is TMPDIR."""
        return self.root / "home"

    @property
    def newest(self) -> Path:
        """The newest checkpoint of the run."""
        return max(self.run.glob("model.ckpt-*"), key=lambda path: int(path.name.rpartition("-")[2]))

    def wait_for(self, words: str, seconds: float = 60) -> None:
        """Waits until the running command has printed some words; for ``Case.meanwhile``.

        Raises:
          TimeoutError: the words were not printed in time, or no command is running.
        """
        until = time.monotonic() + seconds
        while words.encode() not in self.output.read_bytes():
            if time.monotonic() > until or self.process is None:
                raise TimeoutError(f"the command did not print {words!r}")
            time.sleep(0.003)


Fault = Callable[[Place], object]
Command = Sequence[str] | Callable[[Place], Sequence[str]]


@dataclass(frozen=True)
class Expectation:
    """The expected outcome of a case.

    Attributes:
      words: texts that the output must contain; for a refusal, the error message must contain them.
      code: the exit code.
      several: whether a refusal may have several lines, one for each mistake.
    """

    words: tuple[str, ...]
    code: int = 0
    several: bool = False


class Refused(Expectation):
    """Exit code 2 and exactly one line ``Error: …`` that contains the words; nothing is lost.

    Args:
      words: texts that the line, or with ``several`` the lines, must contain.
      several: whether several lines are allowed, one for each mistake.
    """

    def __init__(self, *words: str, several: bool = False) -> None:
        super().__init__(words, 2, several)


class Same(Expectation):
    """Exit code 0, the words if there are any, and the same result as that of the command without the fault.

    The result consists of the weights of the newest checkpoint, the last metrics printed, and every file that the
    command wrote outside of logdirs and caches.
    """

    def __init__(self, *words: str) -> None:
        super().__init__(words)


class Said(Expectation):
    """Exit code 0, possibly with another result, and the words in the output that report it."""

    def __init__(self, *words: str) -> None:
        if not words:
            raise ValueError("Said needs words: a result must not differ silently.")
        super().__init__(words)


class Works(Expectation):
    """Exit code 0; the result may differ, because the case intends it."""

    def __init__(self) -> None:
        super().__init__(())


class Ended(Expectation):
    """The given exit code, such as ``128 + signal.SIGTERM`` after a signal, and the words in the output."""

    def __init__(self, code: int, *words: str) -> None:
        super().__init__(words, code)


@dataclass(frozen=True)
class Case:
    """One hostile case.

    Attributes:
      name: sentence that describes the case; unique among all cases.
      command: arguments of ``run.py``, or a function that returns them for a place.
      expect: the expected outcome.
      fault: the damage done to the files before the command runs.
      task: ``text`` or ``speech``; selects the workspace.
      before: a command that runs before the fault; files that it writes count as the toolkit's.
      meanwhile: a fault applied while the command runs; see ``faults.after``.
      quick: whether ``make test`` runs the case too; for cases that take a tenth of a second.
      timeout: seconds after which the command counts as hanging.
      env: environment variables; None removes a variable.
      stdin: content of stdin.
      shell: a line of bash in which ``"$@"`` is the command, such as ``ulimit -v 1000000; exec "$@"``. The command is
        then a new process instead of a fork of a process that has imported the toolkit.
      ordinary: whether to enforce file permissions even if the tests run as root.
      writes: patterns of the user's files that the command may overwrite, because it was told to.
      keeps: patterns of files that must not change, although the toolkit made them.
    """

    name: str
    command: Command
    expect: Expectation
    fault: Fault = lambda place: None
    task: str = "text"
    before: Command | None = None
    meanwhile: Fault | None = None
    quick: bool = False
    timeout: float = 60
    env: Mapping[str, str | None] = field(default_factory=dict)
    stdin: bytes = b""
    shell: str | None = None
    ordinary: bool = False
    writes: Sequence[str] = ()
    keeps: Sequence[str] = ()


def arguments_of(command: Command, place: Place) -> list[str]:
    """Returns a command's arguments for a place."""
    return list(command(place) if callable(command) else command)


def shown(text: str) -> str:
    """Returns a value as it is shown in the name of a case."""
    return repr(text if len(text) < 50 else f"{text[:20]}… of {len(text)} characters")
