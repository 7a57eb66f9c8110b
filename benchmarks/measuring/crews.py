"""Processes that train at the same time, either independently or as the ranks of one run.

The parent controls each process through a pipe, with the requests of ``turns.TurnsHook``. A crew that
is not being measured is stopped with SIGSTOP, because idle ranks would still communicate.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.measuring.processes import Failure, body, receive, start
from benchmarks.measuring.turns import Round, train_in_turns

_ROOT = str(Path(__file__).resolve().parents[2])
_START_SECONDS = 120


class Crew:
    """Training processes that make their rounds at the same time. The constructor waits for the end of the warm-up.

    Args:
      name: name of the crew, for messages.
      pipes: pipes to the processes, in order of rank.
      processes: process ids.
      together: whether the processes are the ranks of one run, each of which reports the objects of all ranks.
    """

    def __init__(self, name: str, pipes: Sequence[Connection], processes: Sequence[int], together: bool) -> None:
        self.name, self._pipes, self._processes, self._together = name, pipes, processes, together
        self.rounds: list[list[Round]] = []
        about = self._receive()[0]
        self.object_name, self.batch_size = str(about["object_name"]), int(about["batch_size"])
        self._receive()  # the first step
        self._receive()  # the warm-up

    def run_round(self, steps: int) -> None:
        """Makes ``steps`` updates in all processes at the same time."""
        self.rounds.append([answer[0] for answer in self.ask("round", steps)])

    @property
    def speeds(self) -> list[float]:
        """Objects per second of all processes together, in each round."""
        return [done[0].objects / max(r.seconds for r in done) if self._together else
                sum(r.objects / r.seconds for r in done) for done in self.rounds]

    @property
    def step_seconds(self) -> list[float]:
        """Mean seconds per update in each round: of the slowest rank, or averaged over independent runs."""
        return [max(r.seconds for r in done) / done[0].steps if self._together else
                sum(r.seconds for r in done) / sum(r.steps for r in done) for done in self.rounds]

    @property
    def input_wait(self) -> float:
        """Fraction of the time spent waiting for input."""
        every = [r for done in self.rounds for r in done]
        return sum(r.waited for r in every) / sum(r.seconds for r in every)

    def ask(self, *request: Any) -> list[Any]:
        """Sends a request of ``TurnsHook`` to all processes; returns their answers in order of rank."""
        for pipe in self._pipes:
            with contextlib.suppress(BrokenPipeError):  # _receive reports why the process has ended
                pipe.send(request)
        return self._receive()

    def pause(self) -> None:
        """Stops the processes until ``go_on``."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Lets the processes continue."""
        self._signal(signal.SIGCONT)

    def dismiss(self) -> None:
        """Tells the processes to end their training and exit."""
        self.go_on()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(("stop",))

    def _signal(self, number: int) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def _receive(self) -> list[Any]:
        try:
            return [receive(pipe) for pipe in self._pipes]
        except Failure as failure:
            raise Failure(f"{self.name}: {failure}", failure.out_of_memory, failure.mistake) from None


@contextlib.contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Context manager that sets environment variables for the processes started within it."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def single_runs(count: int, config_file: str, overrides: Sequence[str], warmup: int,
                of_each: Sequence[dict[str, str]] = ()) -> Iterator[Crew]:
    """Context manager that starts independent training processes, yields them as a crew, and ends them on exit.

    Args:
      count: number of processes.
      config_file: path of the config.
      overrides: overrides of the config, as on the command line.
      warmup: untimed updates after the first.
      of_each: additional environment variables for each process.

    Raises:
      Failure: a process failed.
    """
    started = []
    try:
        for number in range(count):
            with environment(of_each[number] if of_each else {}):
                started.append(start(train_in_turns, config_file, list(overrides), warmup))
        crew = Crew(f"{count} runs by themselves", [pipe for _, pipe in started],
                    [process.pid or 0 for process, _ in started], together=False)
        yield crew
        crew.dismiss()
        for process, _ in started:
            process.join(timeout=30)
    finally:
        for process, _ in started:
            process.kill()


@contextlib.contextmanager
def ranks(count: int, launcher: Sequence[str], config_file: str, overrides: Sequence[str],
          warmup: int) -> Iterator[Crew]:
    """Context manager that starts the ranks of one run on this machine, yields them as a crew, and ends them on exit.

    Args:
      count: number of ranks.
      launcher: command that starts processes, to which ``-np count`` and the program are appended.
      config_file: path of the config.
      overrides: overrides of the config, as on the command line.
      warmup: untimed updates after the first.

    Raises:
      Failure: the launcher or a rank failed.
    """
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as door, \
            open(f"{folder}/output", "w+", encoding="utf-8") as output:
        door.bind(f"{folder}/door")
        door.listen(count)
        door.settimeout(1.0)
        command = [*launcher, "-np", str(count), sys.executable, "-m", "benchmarks.measuring.crews", f"{folder}/door"]
        with environment({"PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))}):
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            pipes = [_accept(door, process, launcher[0], output) for _ in range(count)]
            greetings = sorted((receive(pipe), number) for number, pipe in enumerate(pipes))
            in_order = [pipes[number] for _, number in greetings]
            for pipe in in_order:
                pipe.send((config_file, [*overrides, "--use_horovod=True"], warmup))
            crew = Crew(f"{count} ranks", in_order, [pid for (_, pid), _ in greetings], together=True)
            yield crew
            crew.dismiss()
            process.wait(timeout=60)
        finally:
            process.kill()


def _accept(door: socket.socket, process: subprocess.Popen[bytes], launcher: str, output: Any) -> Connection:
    for _ in range(_START_SECONDS):
        with contextlib.suppress(TimeoutError):
            return Connection(door.accept()[0].detach())
        if process.poll() is not None:
            break
    output.seek(0)
    raise Failure(f"{launcher} started no ranks: {output.read().strip()}")


def _take_part(door: str) -> None:
    """Runs one rank: reports its rank and process id, receives the arguments, and trains as the parent requests.

    Args:
      door: path of the Unix socket on which the parent listens.
    """
    from open_seq2seq.utils.launcher import launched_as

    place = socket.socket(socket.AF_UNIX)
    place.connect(door)
    pipe = Connection(place.detach())
    pipe.send((launched_as()[0], os.getpid()))
    body(train_in_turns, pipe, *pipe.recv())


if __name__ == "__main__":
    _take_part(sys.argv[1])
