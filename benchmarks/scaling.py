"""Measures how training scales over the ranks or towers of this machine, and predicts scaling on clusters.

    python benchmarks/scaling.py --config_file=example_configs/text2text/en-de/transformer-multi30k.py \
        --ranks 1,2 --mode weak --batch_size_per_gpu=4096

For each number N of replicas, two measurements alternate: N independent runs that train at the same time, and one run
on N replicas; during each, the processes of the other are suspended. Efficiency is the speed of the one run divided by
the summed speed of the N runs. The N runs train at the same time because the ranks of one machine share its memory and
caches, too. All replicas have the same number of threads. In weak scaling, each replica has the config's batch size; in
strong scaling, one N-th of it.

With Horovod, the program also times the reduction of the model's gradients and one raw grouped_allreduce of the same
size, fits a cost model of reductions (start-up time, latency, bandwidth), compares the efficiency that it predicts with
the measured one, and predicts the efficiency on larger clusters. Prints Markdown tables and saves nothing. Unknown
options override the config.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.cluster_model import Costs, Link, fit_costs
from benchmarks.measuring.crews import Crew, environment, ranks, single_runs
from benchmarks.measuring.machine import Machine, describe_machine
from benchmarks.measuring.programs import run_program
from benchmarks.measuring.scaling_table import (
    Scale,
    check_table,
    cluster_table,
    fit_table,
    reduction_table,
    scaling_table,
)

# Sizes, in bytes, of the reductions to which the cost model is fitted.
SIZES = (4, 2**16, 2**20, 2**22, 2**24, 2**26)
# Numbers of ranks, and bandwidths in Gbit/s, for which efficiency is predicted by default.
_CLUSTERS, _GBPS = "8,64,512,1024", "10,25,100,400"


def _numbers(kind: Callable[[str], float]) -> Callable[[str], list[float]]:
    """Returns a parser of comma-separated positive numbers, for ``add_argument(type=…)``."""
    def parse(text: str) -> list[float]:
        values = [kind(part) for part in text.split(",")]
        if min(values) <= 0:
            raise ValueError
        return values

    parse.__name__ = "list of numbers above 0"  # argparse names the type in its error messages
    return parse


def parse_arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns the parsed options, and the remaining arguments, which override the config."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    add = parser.add_argument
    add("--config_file", required=True, help="a config with a training section")
    add("--ranks", type=_numbers(int), default=[1, 2], help="comma-separated numbers of replicas")
    add("--runner", choices=("horovod", "towers"), default="horovod", help="kind of replicas")
    add("--mode", choices=("weak", "strong"), default="weak", help="weak: constant batch per replica; strong: constant "
        "total batch")
    add("--launcher", default=None, help="command that starts ranks, before -np N (default: mpiexec --bind-to none)")
    add("--steps", type=int, default=10, help="updates per round")
    add("--warmup", type=int, default=3, help="untimed updates after the first")
    add("--rounds", type=int, default=5, help="rounds of each measurement")
    add("--repetitions", type=int, default=15, help="number of times that reductions are timed")
    add("--threads", type=int, default=None, help="threads per replica (default: cores / largest number of replicas)")
    add("--overlap", type=float, default=0.0, help="fraction of the reduction that overlaps the backward pass in the "
        "cost model, from 0 (none) to 1")
    add("--clusters", type=_numbers(int), default=_CLUSTERS, help="numbers of ranks to predict for")
    add("--bandwidth_gbps", type=_numbers(float), default=_GBPS, help="link bandwidths to predict for, in Gbit/s")
    add("--latency_us", type=float, default=20.0, help="latency of these links in microseconds")
    add("--start_ms", type=float, default=None, help="start-up time of a reduction on the cluster (default: as fitted)")
    add("--step_ms", type=float, default=None, help="time of a single rank's update on the cluster (default: as "
        "measured)")
    options, overrides = parser.parse_known_args(argv)
    if min(options.steps, options.rounds, options.repetitions) < 1 or options.warmup < 0:
        parser.error("--steps, --rounds and --repetitions have to be at least 1, --warmup at least 0")
    if not 0.0 <= options.overlap <= 1.0:
        parser.error("--overlap has to be from 0 to 1")
    return options, overrides


def default_launcher() -> list[str]:
    """Returns the command that starts ranks on this machine, preferring the mpiexec of this Python environment."""
    beside = Path(sys.executable).parent / "mpiexec"
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return [str(beside) if beside.exists() else "mpiexec", *root, "--oversubscribe", "--bind-to", "none"]


def measure(count: int, options: argparse.Namespace, overrides: list[str], machine: Machine) -> Scale:
    """Measures scaling for one number of replicas.

    Args:
      count: number of replicas.
      options: the program's options.
      overrides: overrides of the config.
      machine: describes this machine.
    """
    gpus = [{"CUDA_VISIBLE_DEVICES": str(n % len(machine.gpus))} for n in range(count)] if machine.on_gpu else ()
    with single_runs(count, options.config_file, overrides, options.warmup, gpus) as alone:
        batch = alone.batch_size
        if count == 1:
            for _ in range(options.rounds):
                alone.run_round(options.steps)
            return Scale(1, alone.object_name, batch, alone.speeds, alone.step_seconds, input_wait=alone.input_wait)
        alone.pause()
        if options.mode == "strong":
            batch //= count
            overrides = [*overrides, f"--batch_size_per_gpu={batch}"]
        with _together(count, options, overrides, machine) as together:
            together.pause()
            for _ in range(options.rounds):
                for crew in (alone, together):
                    crew.go_on()
                    crew.run_round(options.steps)
                    crew.pause()
            scale = Scale(count, alone.object_name, batch, alone.speeds, alone.step_seconds, together.speeds,
                          together.step_seconds, together.input_wait)
            together.go_on()
            if options.runner == "horovod":
                _time_reductions(together, scale, options.repetitions)
    return scale


def _together(count: int, options: argparse.Namespace, overrides: list[str],
              machine: Machine) -> AbstractContextManager[Crew]:
    if options.runner == "horovod":
        launcher = options.launcher.split() if options.launcher else default_launcher()
        return ranks(count, launcher, options.config_file, overrides, options.warmup)
    switch = "num_gpus" if machine.on_gpu else "num_cpu_towers"
    return single_runs(1, options.config_file, [*overrides, f"--{switch}={count}"], options.warmup,
                       [{"TF_NUM_INTRAOP_THREADS": str(count * options.threads)}])


def _time_reductions(crew: Crew, scale: Scale, repetitions: int) -> None:
    from benchmarks.measuring.reduction_time import time_reductions, time_sizes

    scale.reductions = crew.ask("call", time_reductions, repetitions)[0]
    scale.timings = crew.ask("call", time_sizes, SIZES, repetitions)[0]


def describe(scales: list[Scale], options: argparse.Namespace) -> str:
    """Returns all tables as Markdown."""
    word = "ranks" if options.runner == "horovod" else "towers"
    parts = [scaling_table(scales, word)]
    measured = [scale for scale in scales if scale.reductions is not None]
    if measured:
        timings = [timing for scale in measured for timing in scale.timings]
        costs = fit_costs(timings)
        parts += ["Reduction of the model's gradients:", reduction_table(measured),
                  f"Reductions of several sizes, and the fitted costs ({costs}):", fit_table(timings, costs),
                  f"Cost model for these ranks, with {options.overlap:.0%} of the reduction hidden:",
                  check_table(measured, costs, options.overlap), *_predictions(measured[-1], costs, options)]
    return "\n\n".join(parts)


def _predictions(scale: Scale, costs: Costs, options: argparse.Namespace) -> list[str]:
    assert scale.reductions is not None
    step = options.step_ms / 1e3 if options.step_ms else statistics.median(scale.alone_step)
    start = costs.start if options.start_ms is None else options.start_ms / 1e3
    links = [Link(1e-6 * options.latency_us, 1e9 / 8 * gbps) for gbps in options.bandwidth_gbps]
    title = (f"Predicted efficiency of weak scaling: steps of {1e3 * step:,.0f} ms, "
             f"{sum(scale.reductions.groups) / 2**20:.3g} MiB of gradients, {1e3 * start:.2f} ms start-up, "
             f"{options.overlap:.0%} hidden; columns: latency and bandwidth of the links:")
    return [title, cluster_table(options.clusters, links, start, step, scale.reductions.groups, options.overlap)]


def main(argv: list[str]) -> None:
    """Measures and prints the tables."""
    options, overrides = parse_arguments(argv)
    machine = describe_machine()
    options.threads = options.threads or max(1, machine.cores // max(options.ranks))
    with environment({"TF_NUM_INTRAOP_THREADS": str(options.threads)}):
        scales = [measure(count, options, overrides, machine) for count in options.ranks]
    print(f"{options.config_file} {' '.join(overrides)}".rstrip())
    print(f"{options.mode} scaling, {options.rounds} rounds of {options.steps} steps, in turns; "
          f"{options.threads} threads per replica; {machine}\n")
    print(describe(scales, options))


if __name__ == "__main__":
    run_program(main)
