"""Measures peak memory by batch size, and the largest batch that fits a memory limit, as a Markdown table.

    python benchmarks/memory.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --dtypes float32,mixed --limit_mb 8000 --start 1024

Every batch size is tried in a process of its own, which makes a few updates from the batch that
holds the longest example. Sizes double from ``--start`` until one exceeds the limit; then the gap
is halved ``--halvings`` times. Unknown options override the config.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
UPDATES = 3


class Trial(NamedTuple):
    """What one batch size took.

    Attributes:
      batch_size: in the config's unit.
      objects: tokens in the batch, padding excluded.
      peak_megabytes: of the process, or of the GPU.
      seconds: of the fastest update.
    """

    batch_size: int
    objects: int
    peak_megabytes: float
    seconds: float


def try_size(dtype: str, config_file: str, overrides: list[str], batch_size: int, pipe: Connection) -> None:
    """Body of a process: makes some updates and reports a ``Trial``."""
    from open_seq2seq.cli import import_tensorflow

    import_tensorflow()
    from benchmarks.text2text import make_trainer, peak_megabytes

    names, _ = multiprocessing.Pipe()  # make_trainer reports the arithmetic type, which is not wanted here
    trainer = make_trainer(dtype, config_file, [*overrides, f"--batch_size_per_gpu={batch_size}"], None, names)
    _, examples = trainer.describe_epoch()
    seconds = []
    for _ in range(UPDATES):
        start = time.perf_counter()
        trainer.try_batch(examples)
        seconds.append(time.perf_counter() - start)
    objects = trainer.model.num_objects(trainer.model.data_layer.make_batch(examples))
    pipe.send(Trial(batch_size, objects, peak_megabytes(), min(seconds)))


def run_trial(dtype: str, config_file: str, overrides: list[str], batch_size: int) -> Trial | None:
    """Returns what a batch size took, or None when its process died."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=try_size, args=(dtype, config_file, overrides, batch_size, there))
    process.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        return None
    finally:
        process.join()


def search(dtype: str, options: argparse.Namespace, overrides: list[str]) -> list[Trial]:
    """Returns the trials of one arithmetic type, by batch size."""
    trials: list[Trial] = []

    def fits(size: int) -> bool:
        trial = run_trial(dtype, options.config_file, overrides, size)
        if trial is not None:
            trials.append(trial)
            print(f"{dtype}: {trial}", file=sys.stderr)
        return trial is not None and trial.peak_megabytes <= options.limit_mb

    size = options.start
    while fits(size):
        size *= 2
    low, high = size // 2, size
    for _ in range(options.halvings if size > options.start else 0):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return sorted(trials)


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--config_file", required=True, help="a text-to-text config")
    parser.add_argument("--dtypes", default="float32,mixed", help="arithmetic types, separated by commas")
    parser.add_argument("--limit_mb", type=float, default=8000, help="memory limit in MB")
    parser.add_argument("--start", type=int, default=1024, help="first batch size")
    parser.add_argument("--halvings", type=int, default=2, help="how often the last gap is halved")
    options, overrides = parser.parse_known_args(argv)
    print("| dtype | batch size | tokens | peak MB | step s | tokens/s | fits |\n|---|---|---|---|---|---|---|")
    for dtype in options.dtypes.split(","):
        for trial in search(dtype.strip(), options, overrides):
            fits = "yes" if trial.peak_megabytes <= options.limit_mb else "no"
            cells = (dtype, trial.batch_size, trial.objects, f"{trial.peak_megabytes:,.0f}", f"{trial.seconds:.2f}",
                     f"{trial.objects / trial.seconds:,.0f}", fits)
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["PYTHONPATH"] = str(REPOSITORY)
    main(sys.argv[1:])
