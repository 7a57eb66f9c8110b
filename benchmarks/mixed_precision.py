"""Compares training of a config in several dtypes: speed, memory, loss and device utilisation.

    python benchmarks/mixed_precision.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --steps 20 --rounds 5 --batch_size_per_gpu=4096 --output=table.md

Works for any config with a training section. By default, the rows are float32, tf32, mixed_float16
and mixed_bfloat16 on a GPU, and float32 and mixed_bfloat16 on a CPU. Each dtype is trained in a
separate process, on the same batches and with the input pipeline; the processes take turns, one
round of steps each. Nothing is saved. Unknown options override the config. The model's TFLOP/s
count the matrix products and convolutions of the forward pass, times three. The speeds of raw
operations are printed above the table; one column gives the model's speed as a fraction of the
speed of raw matrix products in the same dtype.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.cpu_products import RAW_LIMITS, raw_speeds
from benchmarks.measuring.gpu_products import measure_gpu
from benchmarks.measuring.machine import Machine, describe_machine
from benchmarks.measuring.memory_use import search
from benchmarks.measuring.precision_table import Results, format_raw, format_table, notes
from benchmarks.measuring.programs import run_program
from benchmarks.measuring.settings import Setting, default_names, make_setting
from benchmarks.measuring.turns import workers_in_turns
from open_seq2seq.utils.errors import UserError


def measure(options: argparse.Namespace, overrides: Sequence[str], machine: Machine) -> Results:
    """Measures everything that the options request.

    Raises:
      Failure: a run failed.
    """
    settings = chosen_settings(options.dtypes, machine)
    raw = measure_gpu() if machine.on_gpu else raw_speeds(*RAW_LIMITS)
    with workers_in_turns(settings, options.config_file, overrides, steps=options.steps, warmup=options.warmup,
                          rounds=options.rounds) as workers:
        rows = [worker.result for worker in workers]
        if options.loss_steps:
            for worker in workers:
                worker.measure_loss(options.loss_steps)
        workers[0].count_flops()
    counted = rows[0].flops
    results = Results(rows, loss_steps=options.loss_steps, flops=counted.training_per_object if counted else None,
                      device=machine.gpus[0] if machine.on_gpu else None, peak=options.peak_tflops, raw=raw)
    if options.largest_batch:  # after the other processes have ended and released their memory
        for setting, row in zip(settings, rows, strict=True):
            results.largest[row.name] = largest_batch(options, [*overrides, *setting.overrides], row.batch_size)
    return results


def chosen_settings(names: str | None, machine: Machine) -> list[Setting]:
    """Returns the settings of ``--dtypes``, or those worth comparing on this machine.

    Raises:
      UserError: this machine does not support a dtype.
    """
    chosen = [name.strip() for name in names.split(",")] if names else default_names(machine.on_gpu)
    if "tf32" in chosen and not machine.on_gpu:
        raise UserError("--dtypes contains tf32, but this machine has no GPU: leave tf32 out.")
    return [make_setting(name, machine.on_gpu) for name in chosen]


def largest_batch(options: argparse.Namespace, overrides: Sequence[str], start: int) -> str:
    """Returns the largest batch size that fits the memory limit, as text for the table.

    Args:
      options: the program's options.
      overrides: overrides of the config, including the dtype.
      start: first batch size to try, in the config's unit.
    """
    trials = list(search(options.config_file, overrides, options.limit_mb, start, options.halvings))
    fitting = [trial.batch_size for trial, fits in trials if fits]
    return f"{max(fitting):,}" if fitting else f"below {start:,}"


def parse_arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns the parsed options, and the remaining arguments, which override the config."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--config_file", required=True, help="a config with a training section")
    parser.add_argument("--dtypes", help="comma-separated dtypes; the first is the baseline")
    parser.add_argument("--steps", type=int, default=20, help="updates per round")
    parser.add_argument("--warmup", type=int, default=5, help="untimed updates after the first")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each dtype")
    parser.add_argument("--loss_steps", type=int, help="also report the training loss after this many steps")
    parser.add_argument("--largest_batch", action="store_true", help="also search for the largest batch that fits")
    parser.add_argument("--limit_mb", type=float, help="memory limit in MB (default: the memory of the GPU)")
    parser.add_argument("--halvings", type=int, default=2, help="bisection steps in the search for the largest batch")
    parser.add_argument("--peak_tflops", type=float, help="the device's peak in TFLOP/s, to compute its utilisation")
    parser.add_argument("--output", help="also write the table to this file")
    options, overrides = parser.parse_known_args(argv)
    if min(options.steps, options.rounds) < 1 or options.warmup < 0:
        parser.error("--steps and --rounds have to be at least 1, --warmup at least 0")
    return options, overrides


def check_options(options: argparse.Namespace, machine: Machine) -> None:
    """Raises UserError for invalid options that would otherwise be found only after the measurements."""
    if options.largest_batch and options.limit_mb is None and not machine.on_gpu:
        raise UserError("--largest_batch needs a limit on a CPU: give --limit_mb, in MB.")
    if options.loss_steps is not None and options.loss_steps < 1:
        raise UserError(f"--loss_steps is {options.loss_steps} but has to be at least 1.")


def describe(options: argparse.Namespace, overrides: Sequence[str], results: Results, machine: Machine) -> str:
    """Returns the report: config, machine and table."""
    row = results.rows[0]
    title = f"`{options.config_file}{''.join(' ' + override for override in overrides)}`"
    lines = [f"{title}, batches of {row.batch_size:,} {row.batch_unit}", f"{machine}",
             f"{options.rounds} rounds of {options.steps} steps, in turns, after {options.warmup + 1} warm-up steps"]
    if options.largest_batch and options.limit_mb:
        lines.append(f"largest batch: peak memory of at most {options.limit_mb:,.0f} MB")
    raw = [] if results.raw is None else [format_raw(results.raw)]
    return "\n\n".join(["\n".join(f"* {line}" for line in lines), *raw, format_table(results),
                        *notes(results)]) + "\n"


def main(argv: list[str]) -> None:
    """Measures, prints the report, and writes it to a file if requested."""
    options, overrides = parse_arguments(argv)
    machine = describe_machine()
    check_options(options, machine)
    results = measure(options, overrides, machine)
    text = describe(options, overrides, results, machine)
    print(text)
    if options.output:
        Path(options.output).parent.mkdir(parents=True, exist_ok=True)
        Path(options.output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run_program(main)
