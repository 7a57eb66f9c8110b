"""Recognises changes of the learning rate between checkpoints: a different schedule, or a jump within a schedule."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import tensorflow as tf

from open_seq2seq.optimizers.lr_policies import Schedule

# Numbers of updates at which schedules are compared: powers of the root of 2, rounded down, from 1 to 2^23.5.
_COMPARED = sorted({int(2 ** (place / 2)) for place in range(2 * 24)})
# Number of intervals in which ``has_jump`` searches, and the smallest change in one update that counts as a jump, as a
# fraction of the largest rate. Gradual policies change much less in one update.
_INTERVALS = 64
_JUMP = 0.3


def checksum_of_rates(schedule: Schedule) -> str:
    """Returns a checksum of a schedule's rates at fixed numbers of updates; equal schedules have equal checksums."""
    rates = []
    for step in (0, *_COMPARED):
        try:
            rates.append(f"{_rate(schedule, step):.5g}")
        except Exception:  # a user's policy may be undefined after the end of the run
            rates.append("undefined")
    return hashlib.sha256(" ".join(rates).encode()).hexdigest()[:16]


def has_jump(schedule: Schedule, first: int, last: int) -> bool:
    """Returns whether the rate jumps from one update to the next, as at a boundary of ``piecewise_constant``.

    Args:
      schedule: the schedule.
      first, last: numbers of updates, such as those of two checkpoints. The updates after ``first`` and up to ``last``
        are examined.
    """
    steps = np.unique(np.linspace(first, max(first, last - 1), _INTERVALS + 1).astype(np.int64)).tolist()
    rates = {step: _rate(schedule, step) for step in steps}
    least = _JUMP * max(rates.values())
    return any(_jumps_within(schedule, before, after, least) for before, after in itertools.pairwise(steps)
               if abs(rates[before] - rates[after]) > least)


def _jumps_within(schedule: Schedule, before: int, after: int, least: float) -> bool:
    """Searches for the largest change by bisection; returns whether it exceeds ``least`` in a single update."""
    while after - before > 1:
        middle = (before + after) // 2
        low, mid, high = (_rate(schedule, step) for step in (before, middle, after))
        before, after = (before, middle) if abs(mid - low) >= abs(high - mid) else (middle, after)
    return abs(_rate(schedule, after) - _rate(schedule, before)) > least


def _rate(schedule: Schedule, step: int) -> float:
    return float(schedule(tf.constant(step, tf.int64)))
