"""Measures training speed of a text-to-text config in several arithmetic types, as a Markdown table.

    python benchmarks/text2text.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --dtypes float32,mixed --steps 20 --rounds 5 --encoder_params/encoder_layers=2

Each type trains in a process of its own, on the same batches and with the input pipeline on,
through the loop that ``run.py`` uses. The processes take turns: a round of steps in the first,
then in the second, and again, so that whatever else the machine does falls on all alike.
The other process sleeps meanwhile. Nothing is saved. Unknown options override the config.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import resource
import statistics
import sys
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ENDLESS = 10 ** 9  # steps: the parent process ends the runs
REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass
class Round:
    """What one process did in one round.

    Attributes:
      steps: updates made.
      seconds: how long they took; the last one was waited for.
      tokens: source and target tokens consumed, padding excluded.
      waited: seconds spent waiting for input.
    """

    steps: int
    seconds: float
    tokens: int
    waited: float


@dataclass
class Measurement:
    """All that was measured of one arithmetic type."""

    dtype: str
    compute: str = ""
    first_step: float = 0.0
    rounds: list[Round] = field(default_factory=list)
    peak_megabytes: float = 0.0


class TurnsHook:
    """Lets a training run step only when the parent process says so, and reports each round."""

    def __init__(self, pipe: Connection, steps: int, warmup: int) -> None:
        self._pipe, self._steps, self._warmup = pipe, steps, warmup
        self._start = time.perf_counter()
        self._tokens, self._waited = 0, 0.0
        self._next = 0

    def begin(self, trainer: Any) -> None:
        """Starts the clock of the first step, which is traced, compiled and run."""
        self._start = time.perf_counter()

    def after_step(self, trainer: Any, results: dict[str, Any]) -> None:
        """Reports the first step; then, at the end of the warm-up and of each round, waits for the next turn."""
        if trainer.step == 1:
            float(results["loss"])  # reading a result waits for the device
            self._pipe.send(time.perf_counter() - self._start)
            self._next = 1 + self._warmup
        if trainer.step < self._next:
            return
        float(results["loss"])
        if trainer.step > 1 + self._warmup:
            seconds = time.perf_counter() - self._start
            self._pipe.send((Round(self._steps, seconds, trainer.objects - self._tokens,
                                   trainer.waited - self._waited), peak_megabytes()))
        else:
            self._pipe.send(None)
        if not self._pipe.recv():
            raise SystemExit(0)
        self._next = trainer.step + self._steps
        self._tokens, self._waited = trainer.objects, trainer.waited
        self._start = time.perf_counter()

    def end(self, trainer: Any) -> None:
        """The parent ends the run, not the number of steps."""


def peak_megabytes() -> float:
    """Returns the peak memory in MB: of the first GPU where there is one, else of this process."""
    import tensorflow as tf

    if tf.config.list_logical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def train_in_turns(dtype: str, config_file: str, overrides: list[str], steps: int, warmup: int,
                   pipe: Connection) -> None:
    """Body of a process: builds the config's model in one arithmetic type and trains it in turns."""
    from open_seq2seq.cli import import_tensorflow

    import_tensorflow()  # without its chatter
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            trainer = make_trainer(dtype, config_file, overrides, lambda **_: TurnsHook(pipe, steps, warmup), pipe)
            trainer.train()
    except Exception as error:
        from open_seq2seq.utils.errors import UserError

        pipe.send(RuntimeError(str(error) if isinstance(error, UserError) else traceback.format_exc()))
        raise SystemExit(1) from None


def make_trainer(dtype: str, config_file: str, overrides: list[str], hook: Any, pipe: Connection) -> Any:
    """Makes the trainer that ``run.py --benchmark`` would make, with nothing printed and one hook."""
    from open_seq2seq.config.loader import load_config
    from open_seq2seq.config.options import RunOptions
    from open_seq2seq.config.overrides import parse_overrides
    from open_seq2seq.config.resolve import Benchmark, resolve
    from open_seq2seq.models.builder import build_model
    from open_seq2seq.optimizers.dtype import resolve_dtype
    from open_seq2seq.runners.runner import Runner
    from open_seq2seq.training.session import describe_sections
    from open_seq2seq.training.trainer import Trainer

    values = parse_overrides([*overrides, f"--dtype={dtype}"], ["--config_file"])
    config = resolve(load_config(config_file), "train", values, Benchmark(steps=ENDLESS))
    spec = describe_sections(RunOptions(mode="train", config=config, benchmark=True))["train"]
    spec.params.update(print_loss_steps=None, print_bench_info_steps=None, hooks=[hook])
    seed = spec.params.get("random_seed") or 0
    pipe.send(resolve_dtype(dtype).compute.name)
    return Trainer(build_model(spec, seed), None, Runner(), seed)


class Worker:
    """The parent's end of one training process."""

    def __init__(self, dtype: str, config_file: str, overrides: list[str], steps: int, warmup: int) -> None:
        self.result = Measurement(dtype)
        context = multiprocessing.get_context("spawn")
        self._pipe, child = context.Pipe()
        arguments = (dtype, config_file, overrides, steps, warmup, child)
        self._process = context.Process(target=train_in_turns, args=arguments, daemon=True)
        self._process.start()
        child.close()

    def start(self) -> None:
        """Waits until the model is built, traced and warm."""
        self.result.compute = self._receive()
        self.result.first_step = self._receive()
        self._receive()

    def run_round(self) -> None:
        """Lets the process make one round of steps."""
        self._pipe.send(True)
        timed, self.result.peak_megabytes = self._receive()
        self.result.rounds.append(timed)

    def stop(self) -> None:
        """Ends the process."""
        with contextlib.suppress(OSError):
            self._pipe.send(False)
        self._process.join(timeout=30)
        self._process.kill()

    def _receive(self) -> Any:
        try:
            message = self._pipe.recv()
        except EOFError:
            message = RuntimeError("its process ended without a word; was it killed for memory?")
        if isinstance(message, RuntimeError):
            raise SystemExit(f"The run with dtype {self.result.dtype} failed: {message}")
        return message


def format_table(results: list[Measurement]) -> str:
    """Returns the measurements as a Markdown table; the first row is what the others are compared with."""
    lines = ["| dtype | first step s | step ms (median of rounds) | fastest–slowest round ms | tokens/s | speed | "
             "input wait | peak MB |",
             "|---|---|---|---|---|---|---|---|"]
    base = 0.0
    for result in results:
        step_ms = [1e3 * r.seconds / r.steps for r in result.rounds]
        seconds = sum(r.seconds for r in result.rounds)
        speed = sum(r.tokens for r in result.rounds) / seconds
        base = base or speed
        wait = sum(r.waited for r in result.rounds) / seconds
        name = result.dtype if result.dtype == result.compute else f"{result.dtype} ({result.compute})"
        lines.append(f"| {name} | {result.first_step:.1f} | {statistics.median(step_ms):.1f} | "
                     f"{min(step_ms):.1f}–{max(step_ms):.1f} | {speed:,.0f} | {speed / base:.2f}× | {wait:.1%} | "
                     f"{result.peak_megabytes:,.0f} |")
    return "\n".join(lines)


def parse_arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns the options, and the arguments that are for the config."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--config_file", required=True, help="a text-to-text config")
    parser.add_argument("--dtypes", default="float32,mixed", help="arithmetic types, separated by commas")
    parser.add_argument("--steps", type=int, default=20, help="updates in a round")
    parser.add_argument("--warmup", type=int, default=5, help="updates after the first that are not timed")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each type, taken in turns")
    options, overrides = parser.parse_known_args(argv)
    if min(options.steps, options.rounds) < 1 or options.warmup < 0:
        parser.error("--steps and --rounds have to be at least 1, --warmup at least 0")
    return options, overrides


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    options, overrides = parse_arguments(argv)
    workers: list[Worker] = []
    try:
        for dtype in options.dtypes.split(","):  # one after the other: tracing and warming up are measured too
            workers.append(Worker(dtype.strip(), options.config_file, overrides, options.steps, options.warmup))
            workers[-1].start()
        for _ in range(options.rounds):
            for worker in workers:
                worker.run_round()
    finally:
        for worker in workers:
            worker.stop()
    print(f"{options.config_file} {' '.join(overrides)}".rstrip())
    print(f"{options.rounds} rounds of {options.steps} steps, in turns; {os.cpu_count()} CPU cores; "
          "tokens: source and target, special tokens included, padding excluded\n")
    print(format_table([worker.result for worker in workers]))


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    main(sys.argv[1:])
