"""Compares training of a config in several dtypes: speed, memory, and the share of the speed of raw products.

    python benchmarks/mixed_precision.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --steps 20 --rounds 5 --batch_size_per_gpu=4096

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
import contextlib
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.programs import add_turns, describe_machine, make_parser, markdown_table, run_program
from benchmarks.measuring.raw_speeds import Speeds, gpu_speeds, processor_speeds
from benchmarks.measuring.settings import default_names, dtype_overrides, peak_megabytes
from benchmarks.measuring.trainings import Training
from open_seq2seq.utils.errors import UserError


def measure(options: argparse.Namespace, overrides: Sequence[str], machine: str, on_gpu: bool) -> str:
    """Measures everything, and returns the report: config, machine and tables.

    Raises:
      Failure: a run failed.
    """
    raw = gpu_speeds() if on_gpu else processor_speeds()
    with contextlib.ExitStack() as stack:
        # Started one after another, because the first step is measured too.
        trainings = [stack.enter_context(Training(
            name, options.config_file, [*overrides, *dtype_overrides(name, on_gpu)], options.warmup))
            for name in options.dtypes]
        for _ in range(options.rounds):
            for training in trainings:
                training.run_round(options.steps)
        peaks = [training.ask(peak_megabytes) for training in trainings]
        from benchmarks.measuring.flops import count_training_flops  # imports TensorFlow

        flops, uncounted = trainings[0].ask(count_training_flops)
    about = trainings[0].about
    config = f"{options.config_file}{''.join(' ' + override for override in overrides)}"
    lines = [f"* `{config}`, batches of {about.batch_size:,} {about.batch_unit}", f"* {machine}",
             f"* {options.rounds} rounds of {options.steps} steps, in turns, after {options.warmup + 1} warm-up steps"]
    tables = [format_raw(raw), format_table(trainings, peaks, flops, raw)]
    if uncounted:
        tables.append(f"Products inside {', '.join(uncounted)} are not counted, so TFLOP/s are too low.")
    return "\n\n".join(["\n".join(lines), *tables])


def format_raw(raw: Speeds) -> str:
    """Returns the table of raw operations as Markdown; the first dtype is the baseline."""
    first, *others = next(iter(raw.values()))
    head = ["raw operation", *(f"{name} GFLOP/s" for name in (first, *others)),
            *(f"{name} by {first}" for name in others)]
    return markdown_table(head, [
        [kind, *(f"{speed:,.0f}" for speed in speeds.values()),
         *(f"{speeds[name] / speeds[first]:.2f}×" for name in others)] for kind, speeds in raw.items()])


def format_table(trainings: Sequence[Training], peaks: Sequence[float], flops: float, raw: Speeds) -> str:
    """Returns the table of trainings as Markdown; the first one is the baseline.

    Args:
      trainings: the trainings.
      peaks: peak memory of each in MB.
      flops: training FLOPs per object.
      raw: speeds of raw operations.
    """
    speeds = [statistics.median(done.speed for done in training.rounds) for training in trainings]
    head = ["dtype", "first step s", "step ms (median of rounds)", "fastest–slowest round ms",
            f"{trainings[0].about.object_name}/s", f"against {trainings[0].name}", "peak MB", "model TFLOP/s",
            "of raw products"]
    rows = []
    for training, speed, peak in zip(trainings, speeds, peaks, strict=True):
        steps = [1e3 * done.step_seconds for done in training.rounds]
        raw_speed = raw["product"].get("tf32" if training.name == "tf32" else training.about.compute)
        rows.append([training.label, f"{training.first_step:.1f}", f"{statistics.median(steps):,.1f}",
                     f"{min(steps):,.1f}–{max(steps):,.1f}", f"{speed:,.0f}", f"{speed / speeds[0]:.2f}×",
                     f"{peak:,.0f}", f"{flops * speed / 1e12:.3g}",
                     f"{flops * speed / 1e9 / raw_speed:.0%}" if raw_speed else "–"])
    return markdown_table(head, rows)


def main(argv: list[str]) -> None:
    """Measures and prints the report.

    Raises:
      UserError: this machine does not support a dtype.
    """
    parser = make_parser(__doc__)
    parser.add_argument("--config_file", required=True, help="a config with a training section")
    parser.add_argument("--dtypes", type=lambda text: text.split(","), help="comma-separated dtypes; the first is the "
                        "baseline")
    add_turns(parser, steps=20, warmup=5, rounds=5)
    options, overrides = parser.parse_known_args(argv)
    machine, gpus = describe_machine()
    options.dtypes = options.dtypes or default_names(gpus > 0)
    if "tf32" in options.dtypes and not gpus:
        raise UserError("--dtypes contains tf32, but this machine has no GPU: leave tf32 out.")
    print(measure(options, overrides, machine, gpus > 0))


if __name__ == "__main__":
    run_program(main)
