"""What the benchmark programs share: options, exit codes, passes in turns, Markdown tables, the machine's name."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.measuring.processes import Failure
from open_seq2seq.utils.errors import UserError

_HALF_FLAGS = ("amx_bf16", "amx_fp16", "avx512_bf16", "avx512_fp16", "bf16")

Pass = Callable[[], float]
"""Makes one pass, such as a training step, and returns its duration in seconds."""


def describe_machine() -> tuple[str, int]:
    """Returns (a description of this machine, number of GPUs); initialises no device, to leave memory to others."""
    from open_seq2seq.utils.tensorflow_import import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    from open_seq2seq.utils.machine import cpu_flags, cpu_name

    gpus = [tf.config.experimental.get_device_details(gpu).get("device_name", "unknown GPU")
            for gpu in tf.config.list_physical_devices("GPU")]
    flags = ", ".join(flag for flag in _HALF_FLAGS if flag in cpu_flags()) or "no half-precision instructions"
    cpu = f"{cpu_name()} ({flags}), {len(os.sched_getaffinity(0))} cores"
    return f"{f'{gpus[0]}; host: ' if gpus else ''}{cpu}; TensorFlow {tf.__version__}", len(gpus)


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Returns a parser whose help begins with the program's docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter,
                                   allow_abbrev=False)


def add_turns(parser: argparse.ArgumentParser, steps: int, warmup: int, rounds: int) -> None:
    """Adds the options of trainings in turns to a parser, with these default values."""
    parser.add_argument("--steps", type=int, default=steps, help="updates per round")
    parser.add_argument("--warmup", type=int, default=warmup, help="untimed updates after the first")
    parser.add_argument("--rounds", type=int, default=rounds, help="rounds of each training")


def run_program(main: Callable[[list[str]], Any]) -> None:
    """Runs a program; prints an error as one line, and exits with code 2 if it is the user's mistake, else 1."""
    try:
        main(sys.argv[1:])
    except (UserError, Failure) as error:
        print(f"Error: {error}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, UserError) or error.mistake else 1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Returns a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def timed_pass(compute: Callable[[], Any]) -> Pass:
    """Returns a pass that computes a tensor and waits for its value."""
    def one_pass() -> float:
        start = time.perf_counter()
        compute().numpy()
        return time.perf_counter() - start

    return one_pass


def with_range(values: Sequence[float], spec: str) -> str:
    """Returns the median, the minimum and the maximum of values: ``1.02 (0.98–1.05)``."""
    return f"{statistics.median(values):{spec}} ({min(values):{spec}}–{max(values):{spec}})"


def take_turns(passes: Mapping[str, Pass], rounds: int) -> dict[str, list[float]]:
    """Returns the durations of all passes in milliseconds, by name.

    In each round, every program makes one pass. Another round before them is not counted: it traces functions and fills
    caches.
    """
    every = [{name: 1e3 * one_pass() for name, one_pass in passes.items()} for _ in range(rounds + 1)][1:]
    return {name: [durations[name] for durations in every] for name in passes}


def comparison_table(durations: Mapping[str, Sequence[float]], unit: str = "", count: int = 0) -> str:
    """Returns a Markdown table of durations and of the speeds relative to the first row.

    Args:
      durations: milliseconds of all rounds, by name.
      unit: unit of the objects that a pass processes; empty for no column of their speed.
      count: number of objects that a pass processes.
    """
    first, reference = next((name, statistics.median(values)) for name, values in durations.items())
    rows = []
    for name, values in durations.items():
        median = statistics.median(values)
        digits = 0 if median >= 100.0 else 1
        speed = [f"{1e3 * count / median:,.0f}"] if unit else []
        rows.append([name, f"{median:,.{digits}f}", f"{min(values):,.{digits}f} to {max(values):,.{digits}f}", *speed,
                     f"{reference / median:.2f}"])
    return markdown_table(["", "ms, median", "range", *([f"{unit}/s"] if unit else []), f"speed by {first}"], rows)
