"""Training processes that take turns: each makes a round of steps while the others wait.

This way, other load on the machine affects all of them equally. All processes train on the same batches,
with the input pipeline and the training loop that ``run.py`` uses.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from benchmarks.measuring.memory_use import peak_megabytes
from benchmarks.measuring.processes import Failure, receive, start
from benchmarks.measuring.settings import Setting, compute_type, make_trainer, sample_batches
from benchmarks.measuring.utilization import FlopCount

_FLOP_BATCHES = 8


class Round(NamedTuple):
    """The measurements of one process in one round.

    Attributes:
      steps: number of updates.
      seconds: duration until the last update was complete.
      objects: tokens, frames or images consumed, without padding.
      waited: seconds spent waiting for input.
    """

    steps: int
    seconds: float
    objects: int
    waited: float


@dataclass
class Measurement:
    """The measurements of one setting.

    Attributes:
      name: the setting's name.
      compute: dtype in which the model computes.
      object_name: name of the objects that are counted: tokens, frames or images.
      batch_size: the config's batch size.
      batch_unit: unit of the batch size.
      first_step: duration in seconds of the first step, including tracing and compilation.
      rounds: measurements of each round.
      peak_megabytes: peak memory of the GPU if there is one, else of the process.
      loss: mean training loss of the last steps, if requested.
      flops: FLOPs of the model's forward pass, if requested.
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
        """The name, followed by the computing dtype if the setting is mixed."""
        return f"{self.name} ({self.compute})" if self.name.startswith("mixed") else self.name

    @property
    def step_milliseconds(self) -> list[float]:
        """Mean milliseconds per update in each round."""
        return [1e3 * r.seconds / r.steps for r in self.rounds]

    @property
    def speed(self) -> float:
        """Objects per second, the median over the rounds."""
        return statistics.median(r.objects / r.seconds for r in self.rounds)

    @property
    def input_wait(self) -> float:
        """Fraction of the time spent waiting for input."""
        return sum(r.waited for r in self.rounds) / sum(r.seconds for r in self.rounds)


class TurnsHook:
    """Hook that makes training steps only when the parent process requests them, and sends back the results.

    The requests are ``("round", steps)``, which makes ``steps`` updates; ``("loss", step)``, which trains up to
    ``step`` and averages the losses of the last tenth; ``("flops",)``, which counts FLOPs; ``("stop",)``, which exits;
    and ``("call", function, *arguments)``, which calls ``function(trainer, *arguments)``.

    Args:
      pipe: pipe to the parent process.
      warmup: untimed updates after the first.
    """

    def __init__(self, pipe: Connection, warmup: int) -> None:
        self._pipe, self._warmup = pipe, warmup
        self._request: tuple = ("warmup",)
        self._target = 1 + warmup
        self._losses: list[Any] = []

    def begin(self, trainer: Any) -> None:
        """Sends a description of the training and starts timing the first step."""
        layer = trainer.model.data_layer.params
        self._pipe.send({"compute": compute_type(trainer), "object_name": trainer.model.object_name,
                         "batch_size": layer["batch_size"], "batch_unit": layer["batch_size_unit"]})
        self._start = time.perf_counter()

    def after_step(self, trainer: Any, results: dict[str, Any]) -> None:
        """Sends the duration of the first step; after each request, sends its result and waits for the next one."""
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
        """Does nothing, because the parent process ends the run."""

    def _answer(self, trainer: Any) -> Any:
        if self._request[0] == "round":
            return Round(self._request[1], time.perf_counter() - self._start, trainer.objects - self._objects,
                         trainer.waited - self._waited), peak_megabytes()
        if self._request[0] == "loss":
            last = self._losses[:self._request[1]][-max(self._request[1] // 10, 1):]
            return sum(float(loss) for loss in last) / len(last)
        return None

    def _begin_next(self, trainer: Any) -> bool:
        """Receives a request; returns whether it needs training steps."""
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
    """Builds the config's model and trains it as the parent process requests; the body of a training process."""
    trainer = make_trainer(config_file, overrides, lambda **_: TurnsHook(pipe, warmup))
    from open_seq2seq.training.train import train  # imports TensorFlow, whose log is suppressed by now

    train(trainer)


class Worker:
    """The parent's handle to one training process. The constructor waits for the end of the warm-up."""

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

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def run_round(self, steps: int) -> None:
        """Runs one round of steps in the process."""
        timed, self.result.peak_megabytes = self._ask("round", steps)
        self.result.rounds.append(timed)

    def steps_pass(self, steps: int) -> Callable[[], float]:
        """Returns a function that runs one round of steps, and returns its mean duration of a step in seconds."""
        def one_round() -> float:
            self.run_round(steps)
            return self.result.rounds[-1].seconds / steps

        return one_round

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns ``function(trainer, *arguments)``, computed in the process."""
        return self._ask("call", function, *arguments)

    def measure_loss(self, step: int) -> None:
        """Continues the training up to ``step`` and stores the mean loss of the last tenth of all steps."""
        self.result.loss = self._ask("loss", step)

    def count_flops(self) -> None:
        """Counts the FLOPs of the model's forward pass on batches spread over an epoch."""
        self.result.flops = self._ask("flops")

    def stop(self) -> None:
        """Ends the process."""
        with contextlib.suppress(OSError):
            self._pipe.send(("stop",))
        self._process.join(timeout=30)
        self._process.kill()

    def _ask(self, *request: Any) -> Any:
        with contextlib.suppress(BrokenPipeError):  # _receive reports why the process has ended
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
    """Context manager that measures all settings in turns and yields their workers.

    The processes run until the context ends, so that further requests can be made.

    Args:
      settings: the settings in the order of the table; the first is the baseline.
      config_file: path of the config.
      overrides: overrides of the config, as on the command line.
      steps: updates per round.
      warmup: untimed updates after the first.
      rounds: rounds of each setting.

    Raises:
      Failure: one of the runs failed.
    """
    workers: list[Worker] = []
    try:
        for setting in settings:  # started in sequence, because the first step is measured too
            workers.append(Worker(setting, config_file, overrides, warmup))
        for _ in range(rounds):
            for worker in workers:
                worker.run_round(steps)
        yield workers
    finally:
        for worker in workers:
            worker.stop()
