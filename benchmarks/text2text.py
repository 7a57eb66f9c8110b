"""Measures training speed of a config in several arithmetic types, as a Markdown table.

    python benchmarks/text2text.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --dtypes float32,mixed --steps 20 --rounds 5 --encoder_params/encoder_layers=2

Each type trains in a process of its own, on the same batches and with the input pipeline on,
through the loop that ``run.py`` uses. The processes take turns: a round of steps in the first,
then in the second, and again, so that whatever else the machine does falls on all alike.
The other process sleeps meanwhile. Nothing is saved. Unknown options override the config.
``benchmarks/mixed_precision.py`` measures more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.programs import markdown_table, run_program
from benchmarks.measuring.settings import make_setting
from benchmarks.measuring.turns import Measurement, workers_in_turns


def format_table(results: list[Measurement]) -> str:
    """Returns the measurements as a Markdown table; the first row is what the others are compared with."""
    rows = []
    for result in results:
        step_ms = result.step_milliseconds
        rows.append([result.label, f"{result.first_step:.1f}", f"{statistics.median(step_ms):.1f}",
                     f"{min(step_ms):.1f}–{max(step_ms):.1f}", f"{result.speed:,.0f}",
                     f"{result.speed / results[0].speed:.2f}×", f"{result.input_wait:.1%}",
                     f"{result.peak_megabytes:,.0f}"])
    return markdown_table(["dtype", "first step s", "step ms (median of rounds)", "fastest–slowest round ms",
                           f"{results[0].object_name}/s", "speed", "input wait", "peak MB"], rows)


def parse_arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns the options, and the arguments that are for the config."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--config_file", required=True, help="a config with a training section")
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
    settings = [make_setting(name.strip(), on_gpu=False) for name in options.dtypes.split(",")]
    with workers_in_turns(settings, options.config_file, overrides, steps=options.steps, warmup=options.warmup,
                          rounds=options.rounds) as workers:
        results = [worker.result for worker in workers]
    print(f"{options.config_file} {' '.join(overrides)}".rstrip())
    print(f"{options.rounds} rounds of {options.steps} steps, in turns; {os.cpu_count()} CPU cores; "
          "tokens: source and target, special tokens included, padding excluded\n")
    print(format_table(results))


if __name__ == "__main__":
    run_program(main)
