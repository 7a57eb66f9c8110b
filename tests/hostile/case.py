"""What a hostile case is: a finished run, a fault in its files, a command, and what must come of it.

    Case("a bit of the newest weights is flipped", fault=flip("run/model.ckpt-60/weights.safetensors"),
         command=EVALUATE, expect=Said("truncated or altered"))

Every case begins with a copy of the same workspace (``workspaces.py`` says what is in it). The fault is made, the
command runs in a process of its own, in the workspace's folder, and the judge (``judge.py``) looks at the exit code, at
what was printed, and at every file. Whatever a case expects, these always fail it: a file of the user's that changed
(its content, type, name, or where a link leads), a checkpoint that changed although the command was refused, a
traceback, an end by a signal, a command that does not end, and a result that silently differs.

Files ``tests/hostile/cases_*.py`` hold lists named ``CASES``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CONFIG = "--config_file=config.py"
# Commands on the finished run, and in a logdir of their own. Paths are relative: commands run in the workspace.
RESUME = (CONFIG, "--mode=train_eval", "--continue_learning", "--max_steps=80")
TRAIN_ANEW = (CONFIG, "--mode=train_eval", "--logdir=new", "--max_steps=20")
CHECK = (CONFIG, "--mode=train", "--check")
EVALUATE = (CONFIG, "--mode=eval")
EVALUATE_BEST = (*EVALUATE, "--restore_best_checkpoint=True")
INFER = (CONFIG, "--mode=infer", "--infer_output_file=out.txt")
# With the config of the newest checkpoint, and only what that holds.
INFER_TEXT = ("--mode=infer", "--logdir=run", "--infer_output_file=out.txt", "--infer_files", "dev.src")
INFER_SPEECH = ("--mode=infer", "--logdir=run", "--infer_output_file=out.txt", "--infer_files", "wav/dev-0000.wav")


@dataclass
class Place:
    """A copy of the workspace, which a fault may change at will.

    Attributes:
      root: its folder, in which commands run.
      output: file that the command's standard output goes to.
      process: number of the running command, for a fault that comes while it runs.
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
        """HOME of the command; ``.cache`` in it is its XDG_CACHE_HOME, and ``tmp`` its TMPDIR."""
        return self.root / "home"

    @property
    def newest(self) -> Path:
        """The newest checkpoint of the run."""
        return max(self.run.glob("model.ckpt-*"), key=lambda path: int(path.name.rpartition("-")[2]))

    def wait_for(self, words: str, seconds: float = 60) -> None:
        """Waits until the running command has printed some words, or has ended; for ``Case.meanwhile``."""
        until = time.monotonic() + seconds
        while words.encode() not in self.output.read_bytes():
            if time.monotonic() > until or self.process is None:
                raise TimeoutError(f"the command did not print {words!r}")
            time.sleep(0.003)


Fault = Callable[[Place], object]
Command = Sequence[str] | Callable[[Place], Sequence[str]]


@dataclass(frozen=True)
class Expectation:
    """What must come of a case; the words are those that the command has to say.

    Attributes:
      words: each stands in the output; of a refusal, in the one sentence.
      code: the exit code.
      several: whether it may refuse in several lines, one for each mistake.
    """

    words: tuple[str, ...]
    code: int = 0
    several: bool = False


class Refused(Expectation):
    """Exit code 2 and exactly one line ``Error: …``, which has the words; nothing is lost.

    Args:
      words: what the line has, or with ``several`` the lines have.
      several: several mistakes are each named on a line of their own.
    """

    def __init__(self, *words: str, several: bool = False) -> None:
        super().__init__(words, 2, several)


class Same(Expectation):
    """Exit code 0 and the result of the same command without the fault (and the words, if there are any).

    The result is the weights of the newest checkpoint, the last metrics printed, and every file that the command wrote
    outside of logdirs and caches.
    """

    def __init__(self, *words: str) -> None:
        super().__init__(words)


class Said(Expectation):
    """Exit code 0, perhaps with another result, and the words that say so in the output."""

    def __init__(self, *words: str) -> None:
        if not words:
            raise ValueError("A result that differs without a word is what the driver is to find.")
        super().__init__(words)


class Works(Expectation):
    """Exit code 0, and a result that differs because the case means it to."""

    def __init__(self) -> None:
        super().__init__(())


class Ended(Expectation):
    """An exit code of its own, such as ``128 + signal.SIGTERM`` after a signal, and the words in the output."""

    def __init__(self, code: int, *words: str) -> None:
        super().__init__(words, code)


@dataclass(frozen=True)
class Case:
    """One hostile case.

    Attributes:
      name: unique among all cases; a sentence that says what is done.
      command: arguments of ``run.py``, or a function from the place to them.
      expect: what must come of it.
      fault: what is done to the files beforehand.
      task: ``text`` or ``speech``: whose workspace it is.
      before: a command that runs before the fault; what it makes counts as the toolkit's.
      meanwhile: a fault that comes while the command runs: see ``faults.after``.
      quick: whether ``make test`` runs it too: for those that end in a tenth of a second.
      timeout: seconds after which the command hangs.
      env: variables of the environment; None removes one.
      stdin: what stands on standard input.
      shell: a line of bash in which ``"$@"`` is the command, ``ulimit -v 1000000; exec "$@"`` for instance. The command
        is then a new process, and no fork of one that has imported the toolkit before.
      ordinary: whether access rights count, as they do for everybody but root.
      writes: patterns of files that the command may overwrite, although they are the user's: those it was told to.
      keeps: patterns of files that must stay, although the toolkit made them.
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
    """Returns the arguments of a command in a place."""
    return list(command(place) if callable(command) else command)


def shown(text: str) -> str:
    """Returns a value as the name of a case shows it."""
    return repr(text if len(text) < 50 else f"{text[:20]}… of {len(text)} characters")
