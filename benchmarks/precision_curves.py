"""Trains the first updates of a config in several settings with equal seeds and compares the losses with float32.

    python benchmarks/precision_curves.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --csv=curves/losses.csv --output=curves/table.md --png=docs/images/precision-curves.png \
        --settings float32:300:1,2,3,4,5 mixed_bfloat16:300:1,2,3,4,5 mixed_float16/Backoff:40:1,2 \
        --lr_policy_params/warmup_steps=300

A setting is written dtype[/loss_scaling]:updates:seeds, or mixed/product+recurrence:updates:seeds with the kinds of
operations that mixed computes in bfloat16 on a CPU. Each run has its own process and is added to the CSV file
when it is complete; running the same command again continues after the last complete run. Settings are compared
after equal numbers of updates; steps that loss scaling skipped do not count. The table and the plot compare each
difference with a band around 0, whose half-width is two standard deviations of the float32 losses over the seeds.
Unknown options override the config.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.comparison import BAND, HEAD, Row, compare, deviations, table_rows, windows
from benchmarks.measuring.curves import REFERENCE, LossFile, Plan, parse_plan, train_curve
from benchmarks.measuring.processes import call
from benchmarks.measuring.programs import markdown_table, new_figure, run_program
from open_seq2seq.utils.errors import UserError


def run_missing(losses: LossFile, plans: Sequence[Plan], config_file: str, overrides: Sequence[str]) -> None:
    """Makes the runs that are missing from the file, and prints how long each took."""
    for plan in plans:
        # Each run is also validated after the numbers of updates at which shorter settings end.
        marks = sorted({other.updates for other in plans if other.updates <= plan.updates})
        for seed in plan.seeds:
            if losses.has(plan.name, seed, marks):
                continue
            start = time.perf_counter()
            losses.replace(plan.name, seed, call(train_curve, config_file, list(overrides), plan, seed, marks))
            print(f"{plan.name}, seed {seed}: {plan.updates} updates in {time.perf_counter() - start:.0f} s",
                  file=sys.stderr, flush=True)


def draw(path: str, losses: LossFile, rows: Sequence[Row], window: int) -> None:
    """Writes the plot: mean loss curves, and the differences at equal seeds with the band.

    Args:
      path: path of the image file.
      losses: the losses of all runs.
      rows: the rows of the table.
      window: number of updates over which training losses are averaged.

    Raises:
      UserError: matplotlib is missing.
    """
    figure, (curves, paired) = new_figure(2, width=5.6)
    for row in rows:
        found = windows(losses.losses, row.plan.name, window)
        ends = sorted(set.intersection(*(set(found[seed]) for seed in row.plan.seeds)))
        curves.plot(ends, [statistics.fmean(found[seed][end] for seed in row.plan.seeds) for end in ends],
                    label=row.plan.name)
        _draw_differences(paired, row)
    spread = deviations(windows(losses.losses, REFERENCE, window))
    band = [BAND * value for value in spread.values()]
    paired.fill_between(list(spread), [-value for value in band], band, color="0.85",
                        label=f"±{BAND:.0f} std. deviations of {REFERENCE} seeds")
    curves.set(xlabel="updates", ylabel=f"mean training loss of {window} updates")
    paired.set(xlabel="updates", ylabel=f"difference from {REFERENCE}, equal seeds")
    for axes in (curves, paired):
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _draw_differences(axes: Any, row: Row) -> None:
    line = axes.plot([], [], label=row.plan.name)[0]  # empty, for the colour and the entry in the legend
    for seed in row.plan.seeds:
        pairs = [(difference.update, difference.value) for difference in row.train if difference.seed == seed]
        if pairs:
            axes.plot(*zip(*pairs, strict=True), color=line.get_color(), linewidth=0.9)
    for difference in row.validation:
        axes.plot(difference.update, difference.value, marker="o", color=line.get_color())


def report(losses: LossFile, plans: Sequence[Plan], window: int) -> tuple[str, list[Row]]:
    """Returns (the table as Markdown, its rows).

    Args:
      losses: the losses of all runs.
      plans: the settings to compare.
      window: number of updates over which training losses are averaged.

    Raises:
      UserError: the file contains no complete run.
    """
    rows = compare(losses.losses, plans, window)
    if not rows:
        raise UserError("The --csv file contains no complete run of these settings yet.")
    notes = (f"Difference: the setting's loss minus {REFERENCE}'s, for the same seed after as many updates. "
             f"A window is the mean training loss of {window} updates.")
    return f"{markdown_table(HEAD, table_rows(rows))}\n\n{notes}\n", rows


def parse_arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns the parsed options, and the remaining arguments, which override the config."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--config_file", required=True, help="a config with training and evaluation")
    parser.add_argument("--settings", nargs="+", required=True, metavar="SETTING:UPDATES:SEEDS",
                        help="settings to run, including float32")
    parser.add_argument("--csv", required=True, type=Path, help="file that stores the losses of complete runs")
    parser.add_argument("--output", help="also write the table to this file")
    parser.add_argument("--png", help="write the plot to this file")
    parser.add_argument("--window", type=int, default=10, help="number of updates to average training losses over")
    parser.add_argument("--report_only", action="store_true", help="run nothing; only report the runs in the CSV file")
    return parser.parse_known_args(argv)


def main(argv: list[str]) -> None:
    """Makes the missing runs, then prints and draws the comparison."""
    options, overrides = parse_arguments(argv)
    if options.png:
        new_figure(1)  # fails before the runs, not after them, if matplotlib is missing
    plans = [parse_plan(text) for text in options.settings]
    losses = LossFile(options.csv, f"{options.config_file} {' '.join(overrides)}".rstrip())
    if not options.report_only:
        run_missing(losses, plans, options.config_file, overrides)
    text, rows = report(losses, plans, options.window)
    print(text)
    if options.output:
        Path(options.output).parent.mkdir(parents=True, exist_ok=True)
        Path(options.output).write_text(text, encoding="utf-8")
    if options.png:
        draw(options.png, losses, rows, options.window)


if __name__ == "__main__":
    run_program(main)
