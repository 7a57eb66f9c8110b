"""Measures how training scales over the ranks of this machine, and predicts scaling on clusters.

    python benchmarks/scaling.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --ranks 2 --batch_size_per_gpu=4096

Two measurements alternate: N independent runs that train at the same time, and one run on N ranks, each a ``run.py
--benchmark`` with the same number of threads for each rank. Efficiency is the speed of the one run divided by the
summed speed of the N runs. The N runs train at the same time because the ranks of one machine share its memory and
caches, too.

The program also times the reduction of the model's gradients and one raw grouped_allreduce of the same size. The times
of a small and of a large reduction give the costs of reductions: a start-up time and a bandwidth. The efficiency that
they predict is compared with the measured one, and the efficiency on larger clusters is predicted, assuming the same
start-up time. Prints Markdown tables and saves nothing. Unknown options override the config. Horovod is needed.

A message of b bytes takes α + b / β on a link. A ring of N ranks splits the data into N parts and passes them on in
2 (N - 1) steps (Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms"), so a reduction takes
2 (N - 1) α + 2 (N - 1) / N · b / β after its start.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.processes import Failure
from benchmarks.measuring.programs import (
    add_turns,
    describe_machine,
    make_parser,
    markdown_table,
    run_program,
    with_range,
)
from benchmarks.measuring.trainings import Round

ROOT = Path(__file__).resolve().parents[1]
# Numbers of ranks, latency in seconds, and bandwidths in Gbit/s of links, for which efficiency is predicted.
_CLUSTERS, _LATENCY, _BANDWIDTHS = (8, 64, 512, 1024), 20e-6, (10, 25, 100, 400)


class Reductions(NamedTuple):
    """Measured reductions.

    Attributes:
      groups: size in bytes of each group of the model's gradients.
      seconds: durations, in seconds, of the reduction of all groups.
      raw: durations, in seconds, of the reduction of one tensor of the same total size.
      idle: fraction of a core that an idle rank uses.
      small: median seconds of a reduction of 4 bytes.
      large: median seconds of a reduction of ``large_bytes``.
      large_bytes: size of a large reduction.
    """

    groups: list[int]
    seconds: list[float]
    raw: list[float]
    idle: float
    small: float
    large: float
    large_bytes: int


def measured_bandwidth(reductions: Reductions, ranks: int) -> float:
    """Returns β, in bytes per second and direction, by which the large reduction takes longer than the small one."""
    return 2 * (ranks - 1) / ranks * reductions.large_bytes / max(reductions.large - reductions.small, 1e-9)


def reduction_seconds(groups: Sequence[float], ranks: int, start: float, latency: float, bandwidth: float) -> float:
    """Returns the time in seconds to reduce groups of tensors one after another.

    Args:
      groups: size of each group in bytes.
      ranks: number of ranks.
      start: start-up time in seconds, which is incurred once, whatever the number of ranks: Horovod's cycle time, and
        the negotiation of which tensors are ready.
      latency: α between two neighbours in the ring, in seconds per message.
      bandwidth: β between two neighbours in the ring, in bytes per second and direction.
    """
    return start + sum(2 * (ranks - 1) * (latency + size / ranks / bandwidth) for size in groups)


def efficiency(step_seconds: float, groups: Sequence[float], *costs: Any) -> float:
    """Returns the speed on N ranks divided by N times the speed of one rank, for equal batches per rank.

    The reductions of an update are assumed not to overlap with its backward pass: first those of the gradients, then
    that of a flag of 4 bytes that says whether they are finite.

    Args:
      step_seconds: duration of an update on a single rank.
      groups: size of each group of gradients in bytes.
      costs: the other arguments of ``reduction_seconds``.
    """
    return step_seconds / (step_seconds + reduction_seconds(groups, *costs) + reduction_seconds([4], *costs))


def measure_rounds(options: argparse.Namespace, config: Sequence[str], gpus: int) -> tuple[list[list[Round]],
                                                                                         list[Round]]:
    """Returns, for each round, the measurements of the independent runs, and of the run on all ranks."""
    first = options.warmup + 1
    command = [sys.executable, str(ROOT / "run.py"), "--mode=train", "--benchmark", f"--bench_start={first}",
               f"--bench_steps={first + options.steps}", *config]
    environments = [{"CUDA_VISIBLE_DEVICES": str(rank % gpus)} if gpus else {} for rank in range(options.ranks)]
    alone, together = [], []
    for _ in range(options.rounds):
        alone.append([_parsed(output) for output in _outputs([command] * options.ranks, environments)])
        together += [_parsed(output) for output in _outputs([[*options.launcher, *command, "--use_horovod=True"]])]
    return alone, together


def measure_reductions(options: argparse.Namespace, config: Sequence[str]) -> Reductions:
    """Measures the reductions of a config's gradients."""
    command = [*options.launcher, sys.executable, "-m", "benchmarks.measuring.reduction_time",
               str(options.repetitions), *config, "--use_horovod=True"]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return Reductions(**json.loads(_outputs([command], [{"PYTHONPATH": path}])[0].splitlines()[-1]))


def _outputs(commands: Sequence[Sequence[str]], environments: Sequence[dict[str, str]] = ({},)) -> list[str]:
    """Runs commands at the same time, with additional environment variables; returns what each printed.

    Raises:
      Failure: a command failed.
    """
    processes = [subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**os.environ, **variables})
                 for command, variables in zip(commands, environments, strict=True)]
    try:
        results = [process.communicate() for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, results, strict=True):
        if process.returncode:
            raise Failure(errors.strip().removeprefix("Error: "), mistake=process.returncode == 2)
    return [output for output, _ in results]


def _parsed(output: str) -> Round:
    """Returns the measurements that a run printed at its end."""
    step, speed, wait = (float(re.findall(pattern, output)[-1].replace(",", "")) for pattern in (
        r"Avg time per step: ([\d.]+)s", r"Avg .* per second: ([\d,.]+)", r"Input wait: ([\d.]+)%"))
    return Round(step, speed, wait / 100)


def describe(ranks: int, alone: Sequence[Sequence[Round]], together: Sequence[Round], reductions: Reductions) -> str:
    """Returns all tables as Markdown."""
    separate = [sum(run.speed for run in runs) for runs in alone]
    efficiencies = [done.speed / speed for done, speed in zip(together, separate, strict=True)]
    step = statistics.median(done.step_seconds for done in together)
    step_alone = statistics.median(run.step_seconds for runs in alone for run in runs)
    ours, raw, groups = statistics.median(reductions.seconds), statistics.median(reductions.raw), reductions.groups
    start, bandwidth = reductions.small, measured_bandwidth(reductions, ranks)
    predicted = efficiency(step_alone, groups, ranks, start, 0.0, bandwidth)
    ratios = [a / b for a, b in zip(reductions.seconds, reductions.raw, strict=True)]
    return "\n\n".join([
        markdown_table(["ranks", "objects/s", "independent runs, objects/s", "efficiency (rounds)", "step ms",
                        "reduction alone / step", "input wait"],
                       [[ranks, f"{statistics.median(done.speed for done in together):,.0f}",
                         f"{statistics.median(separate):,.0f}", with_range(efficiencies, ".1%"), f"{1e3 * step:,.0f}",
                         f"{ours / step:.1%}", f"{statistics.fmean(done.input_wait for done in together):.1%}"]]),
        "Reduction of the model's gradients:",
        markdown_table(["gradients MiB", "groups", "reduction ms", "one raw grouped_allreduce ms", "ratio (pairs)",
                        "core used by an idle rank"],
                       [[f"{sum(groups) / 2**20:.3g}", len(groups), f"{1e3 * ours:.1f}", f"{1e3 * raw:.1f}",
                         with_range(ratios, ".2f"), f"{reductions.idle:.1%}"]]),
        f"Reductions take {1e3 * start:.2f} ms to start and proceed at {8e-9 * bandwidth:.3g} Gbit/s, which predicts "
        f"an efficiency of {predicted:.1%}. Predictions for clusters with links of {1e6 * _LATENCY:.0f} µs:",
        markdown_table(["ranks", *(f"{gbps} Gbit/s" for gbps in _BANDWIDTHS)], [
            [count, *(f"{efficiency(step_alone, groups, count, start, _LATENCY, 1e9 / 8 * gbps):.1%}"
                      for gbps in _BANDWIDTHS)] for count in _CLUSTERS])])


def _default_launcher() -> str:
    """Returns the command that starts ranks on this machine, preferring the mpiexec of this Python environment."""
    beside = Path(sys.executable).parent / "mpiexec"
    root = "--allow-run-as-root " if os.getuid() == 0 else ""
    return f"{beside if beside.exists() else 'mpiexec'} {root}--oversubscribe --bind-to none"


def main(argv: list[str]) -> None:
    """Measures and prints the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--config_file", required=True, help="a config with a training section")
    parser.add_argument("--ranks", type=int, default=2, help="number of ranks, at least 2")
    parser.add_argument("--launcher", default=_default_launcher(), help="command that starts ranks, before -np N "
                        "(default: %(default)s)")
    parser.add_argument("--repetitions", type=int, default=15, help="number of times that reductions are timed")
    parser.add_argument("--threads", type=int, help="threads per rank (default: cores / ranks)")
    add_turns(parser, steps=10, warmup=3, rounds=5)
    options, overrides = parser.parse_known_args(argv)
    options.launcher = [*options.launcher.split(), "-np", str(options.ranks)]
    machine, gpus = describe_machine()
    threads = options.threads or max(1, len(os.sched_getaffinity(0)) // options.ranks)
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)
    config = [f"--config_file={options.config_file}", *overrides]
    tables = describe(options.ranks, *measure_rounds(options, config, gpus),
                      measure_reductions(options, config))
    print(f"{' '.join(config)}\n{options.rounds} rounds of {options.steps} steps, in turns; {threads} threads per "
          f"rank; {machine}\n\n{tables}")


if __name__ == "__main__":
    run_program(main)
