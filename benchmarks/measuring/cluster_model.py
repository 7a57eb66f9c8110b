"""What reductions cost on a cluster: the α–β model of a ring, and the efficiency that follows.

A message of b bytes takes α + b / β on a link. A ring of N ranks cuts what is to be added up into N parts and
passes them on in 2 (N - 1) steps (Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms"), so a
reduction takes 2 (N - 1) α + 2 (N - 1) / N · b / β: with many ranks the latency counts N times, the bytes but twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

# Of the time of a forward and a backward pass, the part in which gradients become ready.
BACKWARD_SHARE = 2.0 / 3.0


class Link(NamedTuple):
    """What joins two neighbours of the ring.

    Attributes:
      latency: α, seconds a message.
      bandwidth: β, bytes a second in one direction.
    """

    latency: float
    bandwidth: float

    def __str__(self) -> str:
        return f"{1e6 * self.latency:.0f} µs, {8e-9 * self.bandwidth:.3g} Gbit/s"


class Costs(NamedTuple):
    """What reductions cost.

    Attributes:
      start: seconds until a reduction sets out, however many ranks there are: Horovod's cycle, and agreeing on what is
        ready.
      link: between neighbours.
    """

    start: float
    link: Link

    def __str__(self) -> str:
        return f"{1e3 * self.start:.2f} ms to set out, {self.link}"


class Timing(NamedTuple):
    """A measured reduction.

    Attributes:
      ranks: that took part.
      bytes: of the tensor.
      seconds: how long it took.
    """

    ranks: int
    bytes: int
    seconds: float


def ring_seconds(size: float, ranks: int, link: Link) -> float:
    """Returns how long a ring of so many ranks takes to add up ``size`` bytes."""
    return 2 * (ranks - 1) * (link.latency + size / ranks / link.bandwidth)


def reduction_seconds(groups: Iterable[float], ranks: int, costs: Costs) -> float:
    """Returns how long groups of so many bytes take that set out together and go one after the other."""
    return costs.start + sum(ring_seconds(size, ranks, costs.link) for size in groups) if ranks > 1 else 0.0


def update_seconds(groups: Iterable[float], ranks: int, costs: Costs) -> float:
    """Returns how long the reductions of one update take: the gradients, then the vote on whether all is finite."""
    return reduction_seconds(groups, ranks, costs) + reduction_seconds([4], ranks, costs)


def efficiency(step_seconds: float, reduction: float, overlap: float = 0.0) -> float:
    """Returns speed on N ranks as a share of N times the speed of one, for equal batches.

    Args:
      step_seconds: of one rank by itself.
      reduction: seconds of reduction in an update.
      overlap: share of it that goes on beside the backward pass, as far as that is long enough.
    """
    hidden = min(overlap * reduction, BACKWARD_SHARE * step_seconds)
    return step_seconds / (step_seconds + reduction - hidden)


def fit_costs(timings: Sequence[Timing]) -> Costs:
    """Returns the costs that explain measured reductions best: least squares of the relative errors, none below 0.

    With one number of ranks the start and the latency cannot be told apart; all is counted as the start then.

    Args:
      timings: of at least two sizes, each of at least two ranks.

    Raises:
      ValueError: no costs explain them.
    """
    table = np.array([[1.0, 2 * (t.ranks - 1), 2 * (t.ranks - 1) / t.ranks * t.bytes] for t in timings])
    table /= np.array([t.seconds for t in timings])[:, np.newaxis]
    best, least = None, np.inf
    for columns in ([0, 2], [0, 1, 2], [1, 2], [2]):  # which of the costs are not 0
        solution, error = _solve(table[:, columns])
        if (solution > 0.0).all() and error < least - 1e-12:
            best, least = dict(zip(columns, solution, strict=True)), error
    if best is None or len({t.bytes for t in timings}) < 2:
        raise ValueError(f"No start, latency and bandwidth explain these reductions: {list(timings)}")
    return Costs(float(best.get(0, 0.0)), Link(float(best.get(1, 0.0)), 1.0 / float(best[2])))


def _solve(columns: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns (the solution of columns · x = 1, the squared error)."""
    scale = columns.max(axis=0)  # they are nine orders of magnitude apart
    solution = np.linalg.lstsq(columns / scale, np.ones(len(columns)), rcond=1e-12)[0]
    return solution / scale, float(np.sum((columns / scale @ solution - 1.0) ** 2))
