"""Trainings that take turns: a round of steps in one process, then in the next, and again.

Whatever else the machine does falls on all alike. Each training runs in a process of its own,
on the same batches and with the input pipeline on, through the loop that ``run.py`` uses; the
others sleep meanwhile.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from benchmarks.measuring.memory_use import peak_megabytes
from benchmarks.measuring.processes import Failure, receive, start
from benchmarks.measuring.settings import Setting, compute_type, make_trainer, sample_batches
from benchmarks.measuring.utilization import FlopCount

_FLOP_BATCHES = 8


class Round(NamedTuple):
    """What one process did in one round.

    Attributes:
      steps: updates made.
      seconds: how long they took; the last one was waited for.
      objects: tokens, frames or images consumed, padding excluded.
      waited: seconds spent waiting for input.
    """

    steps: int
    seconds: float
    objects: int
    waited: float


@dataclass
class Measurement:
    """All that was measured of one arithmetic type.

    Attributes:
      name: the setting's name.
      compute: the type of the arithmetic.
      object_name: what objects are: tokens, frames, images.
      batch_size: of the config.
      batch_unit: what it counts.
      first_step: seconds; it is traced, compiled and run.
      rounds: one after the other.
      peak_megabytes: of the process, or of the GPU.
      loss: mean training loss of the last steps of a run of given length, if asked for.
      flops: of the model's forward pass, if asked for.
    """

    name: str
    compute: str = ""
    object_name: str = "objects"
    batch_size: int = 0
    batch_unit: str = ""
    first_step: float = 0.0
    rounds: list[Round] = field(default_factory=list)
    peak_megabytes: float = 0.0
    loss: float | None = None
    flops: FlopCount | None = None

    @property
    def label(self) -> str:
        """The name, and the arithmetic where the name does not tell it."""
        return f"{self.name} ({self.compute})" if self.name.startswith("mixed") else self.name

    @property
    def step_milliseconds(self) -> list[float]:
        """Mean time of an update in each round."""
        return [1e3 * r.seconds / r.steps for r in self.rounds]

    @property
    def speed(self) -> float:
        """Objects a second: the median of the rounds."""
        return statistics.median(r.objects / r.seconds for r in self.rounds)

    @property
    def input_wait(self) -> float:
        """Share of the time spent waiting for input."""
        return sum(r.waited for r in self.rounds) / sum(r.seconds for r in self.rounds)


class TurnsHook:
    """Lets a training run steps only when the parent process says so, and reports what it asks for.

    Requests are ``("round", steps)``, ``("loss", step)``, ``("flops",)``, ``("call", function, *arguments)``,
    which gets the trainer first, and ``("stop",)``.
    """

    def __init__(self, pipe: Connection, warmup: int) -> None:
        self._pipe, self._warmup = pipe, warmup
        self._request: tuple = ("warmup",)
        self._target = 1 + warmup
        self._losses: list[Any] = []

    def begin(self, trainer: Any) -> None:
        """Starts the clock of the first step."""
        layer = trainer.model.data_layer.params
        self._pipe.send({"compute": compute_type(trainer), "object_name": trainer.model.object_name,
                         "batch_size": layer["batch_size"], "batch_unit": layer["batch_size_unit"]})
        self._start = time.perf_counter()

    def after_step(self, trainer: Any, results: dict[str, Any]) -> None:
        """Reports the first step; then, when a request is fulfilled, waits for the next."""
        self._losses.append(results["loss"])
        if trainer.step == 1:
            float(results["loss"])  # reading a result waits for the device
            self._pipe.send(time.perf_counter() - self._start)
        if trainer.step < self._target:
            return
        float(results["loss"])
        self._pipe.send(self._answer(trainer))
        while not self._begin_next(trainer):
            pass

    def end(self, trainer: Any) -> None:
        """The parent ends the run, not the number of steps."""

    def _answer(self, trainer: Any) -> Any:
        if self._request[0] == "round":
            return Round(self._request[1], time.perf_counter() - self._start, trainer.objects - self._objects,
                         trainer.waited - self._waited), peak_megabytes()
        if self._request[0] == "loss":
            last = self._losses[:self._request[1]][-max(self._request[1] // 10, 1):]
            return sum(float(loss) for loss in last) / len(last)
        return None

    def _begin_next(self, trainer: Any) -> bool:
        """Takes a request; returns whether steps are to be made for it."""
        self._request = self._pipe.recv()
        if self._request[0] == "stop":
            raise SystemExit(0)
        if self._request[0] == "flops":
            from benchmarks.measuring.flops import count_flops

            layer = trainer.model.data_layer
            batches = [layer.make_batch(examples) for examples in sample_batches(layer, _FLOP_BATCHES)]
            self._pipe.send(count_flops(trainer.model, batches))
            return False
        if self._request[0] == "call":
            self._pipe.send(self._request[1](trainer, *self._request[2:]))
            return False
        if self._request[0] == "loss" and self._request[1] <= trainer.step:
            self._pipe.send(self._answer(trainer))
            return False
        self._target = trainer.step + self._request[1] if self._request[0] == "round" else self._request[1]
        self._objects, self._waited = trainer.objects, trainer.waited
        self._start = time.perf_counter()
        return True


def train_in_turns(pipe: Connection, config_file: str, overrides: list[str], warmup: int) -> None:
    """Body of a process: builds the config's model and trains it as the parent says."""
    trainer = make_trainer(config_file, overrides, lambda **_: TurnsHook(pipe, warmup))
    from open_seq2seq.training.loop.train import train  # imports TensorFlow, in silence by now

    train(trainer)


class Worker:
    """The parent's end of one training process: starts it, and waits until it is traced and warm."""

    def __init__(self, setting: Setting, config_file: str, overrides: Sequence[str], warmup: int) -> None:
        self.result = Measurement(setting.name)
        self._process, self._pipe = start(train_in_turns, config_file, [*overrides, *setting.overrides], warmup)
        try:
            for name, value in self._receive().items():
                setattr(self.result, name, value)
            self.result.first_step = self._receive()
            self._receive()
        except BaseException:
            self.stop()
            raise

    def run_round(self, steps: int) -> None:
        """Lets the process make one round of steps."""
        timed, self.result.peak_megabytes = self._ask("round", steps)
        self.result.rounds.append(timed)

    def measure_loss(self, step: int) -> None:
        """Trains on to a number of steps since the start, and keeps the mean loss of their last tenth."""
        self.result.loss = self._ask("loss", step)

    def count_flops(self) -> None:
        """Counts the arithmetic of the model's forward pass on batches spread over an epoch."""
        self.result.flops = self._ask("flops")

    def stop(self) -> None:
        """Ends the process."""
        with contextlib.suppress(OSError):
            self._pipe.send(("stop",))
        self._process.join(timeout=30)
        self._process.kill()

    def _ask(self, *request: Any) -> Any:
        with contextlib.suppress(BrokenPipeError):  # the answer tells why
            self._pipe.send(request)
        return self._receive()

    def _receive(self) -> Any:
        try:
            return receive(self._pipe)
        except Failure as failure:
            raise Failure(f"The run with dtype {self.result.name} failed: {failure}", failure.out_of_memory,
                          failure.mistake) from None


@contextlib.contextmanager
def workers_in_turns(settings: Sequence[Setting], config_file: str, overrides: Sequence[str], *, steps: int,
                     warmup: int, rounds: int) -> Iterator[list[Worker]]:
    """Measures all settings in turns; the processes live on within the context, to be asked for more.

    Args:
      settings: in the order of the table; the first is what others are compared with.
      config_file: the config.
      overrides: of the config.
      steps: updates in a round.
      warmup: updates after the first that are not timed.
      rounds: of each setting.

    Raises:
      Failure: one of the runs failed.
    """
    workers: list[Worker] = []
    try:
        for setting in settings:  # one after the other: tracing and warming up are measured too
            workers.append(Worker(setting, config_file, overrides, warmup))
        for _ in range(rounds):
            for worker in workers:
                worker.run_round(steps)
        yield workers
    finally:
        for worker in workers:
            worker.stop()
