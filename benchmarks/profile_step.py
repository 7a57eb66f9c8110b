"""Breaks down the time of a training step by kind of operation, for each dtype, as a Markdown table.

    python benchmarks/profile_step.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --dtypes float32,mixed --steps 8 --batch_size_per_gpu=4096 --output=profile.md

TensorFlow's profiler measures every operation of some updates on batches spread over an epoch.
Each dtype has its own process. Unknown options override the config. With --plain, a Transformer
implemented with standard Keras layers and Adam is profiled too.
Limitations: operations that run in parallel share the cores, but each is charged its full duration;
sums computed as products with ones count as products; element-wise operations that are fused into a
product count as part of the product.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.machine import describe_machine
from benchmarks.measuring.processes import call
from benchmarks.measuring.profiles import CATEGORIES, Profile, profile_training
from benchmarks.measuring.programs import markdown_table, run_program
from benchmarks.measuring.settings import default_names, make_setting


def format_table(names: Sequence[str], profiles: Sequence[Profile]) -> str:
    """Returns the table of milliseconds and shares by category, with the speed-up of each profile over the first.

    Args:
      names: headings of the profiles.
      profiles: the profiles; the first is the baseline.
    """
    head = ["part of the step"]
    for number, name in enumerate(names):
        head += [f"{name} ms", "share", *(["quicker"] if number else [])]
    rows = [_row(category, [profile.by_category[category] for profile in profiles], profiles)
            for category in CATEGORIES if any(profile.by_category[category] for profile in profiles)]
    rows.append(_row("all operations", [profile.operations for profile in profiles], profiles))
    step: list[str] = ["a step, without the profiler"]
    for number, profile in enumerate(profiles):
        step += [f"{1e3 * profile.seconds:,.1f}", ""]
        step += [_ratio(profiles[0].seconds, profile.seconds)] if number else []
    return markdown_table(head, [*rows, step])


def _row(title: str, seconds: Sequence[float], profiles: Sequence[Profile]) -> list[str]:
    cells = [title]
    for number, (value, profile) in enumerate(zip(seconds, profiles, strict=True)):
        cells += [f"{1e3 * value:,.1f}", f"{value / profile.operations:.1%}"]
        cells += [_ratio(seconds[0], value)] if number else []
    return cells


def _ratio(first: float, value: float) -> str:
    return f"{first / value:.2f}×" if first and value else "–"


def format_types(name: str, profile: Profile, top: int) -> str:
    """Returns one line with the ``top`` types of operations that take the most time."""
    longest = list(profile.by_type.items())[:top]
    return f"{name}: " + ", ".join(f"{kind} {1e3 * seconds:,.1f} ms" for kind, seconds in longest)


def parse_arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns the parsed options, and the remaining arguments, which override the config."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--config_file", required=True, help="a config with a training section")
    parser.add_argument("--dtypes", help="comma-separated dtypes; the first is the baseline")
    parser.add_argument("--steps", type=int, default=8, help="number of updates to profile")
    parser.add_argument("--plain", action="store_true", help="also profile the network built from plain Keras layers")
    parser.add_argument("--top", type=int, default=12, help="number of operation types to list")
    parser.add_argument("--output", help="also write the table to this file")
    options, overrides = parser.parse_known_args(argv)
    if options.steps < 1:
        parser.error("--steps has to be at least 1")
    return options, overrides


def main(argv: list[str]) -> None:
    """Profiles, prints the report, and writes it to a file if requested."""
    options, overrides = parse_arguments(argv)
    machine = describe_machine()
    names = [name.strip() for name in options.dtypes.split(",")] if options.dtypes else default_names(machine.on_gpu)
    profiles, titles = [], []
    for name in names:
        setting = [*overrides, *make_setting(name, machine.on_gpu).overrides]
        for plain in (True, False) if options.plain else (False,):
            profiles.append(call(profile_training, options.config_file, setting, options.steps, plain))
            titles.append(f"{name}, plain Keras" if plain else name)
    slowed = ", ".join(f"{profile.profiled_seconds / profile.seconds:.2f}×" for profile in profiles)
    text = "\n".join([
        f"* `{options.config_file}{''.join(' ' + override for override in overrides)}`", f"* {machine}",
        f"* {options.steps} updates; with the profiler a step takes {slowed} as long", "",
        format_table(titles, profiles), "",
        *(format_types(name, profile, options.top) + "\n" for name, profile in zip(titles, profiles, strict=True))])
    print(text)
    if options.output:
        Path(options.output).parent.mkdir(parents=True, exist_ok=True)
        Path(options.output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run_program(main)
