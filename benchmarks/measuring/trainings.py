"""Trainings in other processes, which make rounds of steps when they are asked to.

Several trainings take turns, so that other load on the machine affects all of them equally. They use the input pipeline
and the training loop of ``run.py``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from benchmarks.measuring.processes import Failure, receive, start
from benchmarks.measuring.settings import make_trainer
from open_seq2seq.training.hooks import Hook


class Round(NamedTuple):
    """The measurements of a round.

    Attributes:
      step_seconds: mean seconds per update.
      speed: tokens, frames or images per second, without padding.
      input_wait: fraction of the time spent waiting for input.
    """

    step_seconds: float
    speed: float
    input_wait: float


class About(NamedTuple):
    """What is trained.

    Attributes:
      compute: dtype in which the model computes.
      object_name: name of the objects that are counted: tokens, frames or images.
      batch_size: the config's batch size.
      batch_unit: unit of the batch size.
    """

    compute: str
    object_name: str
    batch_size: int
    batch_unit: str


class TurnsHook(Hook):
    """Hook that makes training steps only when the parent process requests them.

    A request is a number of updates to make, which is answered by a ``Round``; or a tuple of a function and arguments,
    which is answered by ``function(trainer, *arguments)``; or None, which ends the process.
    """

    def __init__(self, pipe: Connection) -> None:
        super().__init__()
        self._pipe = pipe

    def begin(self, trainer: Any) -> None:
        """Answers requests until one for updates."""
        from open_seq2seq.training.loop.builtin_hooks import Meter

        while not isinstance(request := self._pipe.recv(), int):
            if request is None:
                raise SystemExit(0)
            self._pipe.send(request[0](trainer, *request[1:]))
        self._last, self._meter = trainer.step + request, Meter(trainer)

    def after_step(self, trainer: Any, results: dict[str, Any]) -> None:
        """After the last update of a round, answers this request and those that follow."""
        if trainer.step == self._last:
            float(results["loss"])  # reading a result waits for the device
            self._pipe.send(Round(*self._meter.read()))
            self.begin(trainer)


def _train_in_turns(pipe: Connection, config_file: str, overrides: list[str]) -> None:
    """Trains a config as the parent process requests; the body of a process."""
    trainer = make_trainer(config_file, overrides, lambda **_: TurnsHook(pipe))
    from open_seq2seq.training.train import train  # imports TensorFlow, whose log is suppressed by now

    train(trainer)


def _describe(trainer: Any) -> About:
    model, params = trainer.model, trainer.model.data_layer.params
    return About(model.precision.compute.name, model.object_name, params["batch_size"], params["batch_size_unit"])


class Training:
    """The parent's handle to a process that trains. The constructor waits for the end of the warm-up.

    Args:
      name: name of the dtype or setting.
      config_file: path of the config.
      overrides: overrides of the config, as on the command line.
      warmup: untimed updates after the first.

    Attributes:
      about: what is trained.
      first_step: duration in seconds of the first step, including tracing and compilation.
      rounds: the measurements of each round.

    Raises:
      Failure: the process failed.
    """

    def __init__(self, name: str, config_file: str, overrides: Sequence[str], warmup: int) -> None:
        self.name, self.rounds = name, list[Round]()
        self._process, self._pipe = start(_train_in_turns, config_file, list(overrides))
        try:
            self.about: About = self.ask(_describe)
            self.first_step = self._answer(1).step_seconds
            if warmup:
                self._answer(warmup)
        except BaseException:
            self._process.kill()
            raise

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            with contextlib.suppress(OSError):
                self._pipe.send(None)
            self._process.join(timeout=30)
        self._process.kill()

    @property
    def label(self) -> str:
        """The name, followed by the computing dtype if the setting is mixed."""
        return f"{self.name} ({self.about.compute})" if self.name.startswith("mixed") else self.name

    def run_round(self, steps: int) -> float:
        """Makes ``steps`` updates; returns their mean duration in seconds."""
        self.rounds.append(self._answer(steps))
        return self.rounds[-1].step_seconds

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns ``function(trainer, *arguments)``, computed in the process."""
        return self._answer((function, *arguments))

    def _answer(self, request: Any) -> Any:
        with contextlib.suppress(BrokenPipeError):  # receive reports why the process has ended
            self._pipe.send(request)
        try:
            return receive(self._pipe)
        except Failure as failure:
            raise Failure(f"The run with dtype {self.name} failed: {failure}", failure.out_of_memory,
                          failure.mistake) from None
