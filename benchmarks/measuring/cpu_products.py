"""Raw speed of the CPU in each dtype, in a process of its own."""

from __future__ import annotations

import sys

from benchmarks.measuring.processes import call
from open_seq2seq.runners.processor_speed.cache import Speeds
from open_seq2seq.runners.processor_speed.probe import measure_speeds

# Seconds and rounds for each kind of operation: more than a run's half-second measurement takes.
RAW_LIMITS = (2.0, 100)


def raw_speeds(seconds: float, most_rounds: int) -> Speeds:
    """Returns the speeds in GFLOP/s by kind and dtype; warns on standard error if other programs kept the cores busy.

    Raises:
      Failure: the process that measures failed.
    """
    speeds, waited = call(measure_speeds, seconds, most_rounds)
    if waited:
        print("WARNING: other programs kept the cores busy, so that these speeds are estimates from processor time.",
              file=sys.stderr)
    return speeds
