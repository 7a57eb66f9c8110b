"""Measures peak memory for several batch sizes and finds the largest batch within a memory limit.

    python benchmarks/memory.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --dtypes float32,mixed --limit_mb 8000 --start 1024

Prints a Markdown table. Each batch size is tried in a separate process, which makes a few updates
on the batch that contains the longest example. Sizes, in the config's unit, double from ``--start``
until one exceeds the limit; then ``--halvings`` steps of bisection follow. Unknown options override
the config.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.memory_use import search
from benchmarks.measuring.programs import run_program


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--config_file", required=True, help="a config with a training section")
    parser.add_argument("--dtypes", default="float32,mixed", help="comma-separated dtypes")
    parser.add_argument("--limit_mb", type=float, default=8000, help="memory limit in MB")
    parser.add_argument("--start", type=int, default=1024, help="first batch size to try")
    parser.add_argument("--halvings", type=int, default=2, help="number of bisection steps")
    options, overrides = parser.parse_known_args(argv)
    print("| dtype | batch size | objects | peak MB | step s | objects/s | fits |\n|---|---|---|---|---|---|---|")
    for dtype in options.dtypes.split(","):
        settings = [*overrides, f"--dtype={dtype.strip()}"]
        trials = search(options.config_file, settings, options.limit_mb, options.start, options.halvings)
        for trial, fits in sorted(trials):
            cells = (dtype, trial.batch_size, trial.objects, f"{trial.peak_megabytes:,.0f}", f"{trial.seconds:.2f}",
                     f"{trial.objects / trial.seconds:,.0f}", "yes" if fits else "no")
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    run_program(main)
