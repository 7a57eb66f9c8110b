"""The α–β cost model of ring reductions on a cluster, and the training efficiency that follows from it.

A message of b bytes takes α + b / β on a link. A ring of N ranks splits the data into N parts and passes them on in
2 (N - 1) steps (Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms"), so a reduction takes
2 (N - 1) α + 2 (N - 1) / N · b / β. With many ranks, this approaches 2 N α + 2 b / β: the latency cost grows with N,
the bandwidth cost does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

# Duration of the backward pass, in which gradients become ready, as a fraction of forward plus backward pass.
BACKWARD_SHARE = 2.0 / 3.0


class Link(NamedTuple):
    """The link between two neighbours in the ring.

    Attributes:
      latency: α, in seconds per message.
      bandwidth: β, in bytes per second and direction.
    """

    latency: float
    bandwidth: float

    def __str__(self) -> str:
        return f"{1e6 * self.latency:.0f} µs, {8e-9 * self.bandwidth:.3g} Gbit/s"


class Costs(NamedTuple):
    """The fitted costs of reductions.

    Attributes:
      start: start-up time of a reduction in seconds, independent of the number of ranks: Horovod's cycle time, and the
        negotiation of which tensors are ready.
      link: the link between neighbours in the ring.
    """

    start: float
    link: Link

    def __str__(self) -> str:
        return f"{1e3 * self.start:.2f} ms start-up, {self.link}"


class Timing(NamedTuple):
    """A measured reduction.

    Attributes:
      ranks: number of ranks.
      bytes: size of the tensor.
      seconds: duration of the reduction.
    """

    ranks: int
    bytes: int
    seconds: float


def ring_seconds(size: float, ranks: int, link: Link) -> float:
    """Returns the time in seconds that a ring of ``ranks`` ranks takes to reduce ``size`` bytes."""
    return 2 * (ranks - 1) * (link.latency + size / ranks / link.bandwidth)


def reduction_seconds(groups: Iterable[float], ranks: int, costs: Costs) -> float:
    """Returns the time in seconds to reduce groups of tensors one after another; 0 for a single rank.

    Args:
      groups: size of each group in bytes.
      ranks: number of ranks.
      costs: the costs of a reduction; the start-up time is incurred only once.
    """
    return costs.start + sum(ring_seconds(size, ranks, costs.link) for size in groups) if ranks > 1 else 0.0


def update_seconds(groups: Iterable[float], ranks: int, costs: Costs) -> float:
    """Returns the time in seconds of an update's reductions; the arguments are as in ``reduction_seconds``.

    The gradients are reduced first, then a flag of 4 bytes that says whether they are finite.
    """
    return reduction_seconds(groups, ranks, costs) + reduction_seconds([4], ranks, costs)


def efficiency(step_seconds: float, reduction: float, overlap: float = 0.0) -> float:
    """Returns the speed on N ranks divided by N times the speed of one rank, for equal batches per rank.

    Args:
      step_seconds: duration of an update on a single rank.
      reduction: duration in seconds of an update's reductions.
      overlap: fraction of ``reduction`` that overlaps the backward pass, limited by the length of the backward pass.
    """
    hidden = min(overlap * reduction, BACKWARD_SHARE * step_seconds)
    return step_seconds / (step_seconds + reduction - hidden)


def fit_costs(timings: Sequence[Timing]) -> Costs:
    """Fits non-negative costs to measured reductions by least squares of the relative errors.

    If all timings have the same number of ranks, start-up time and latency cannot be separated; both are counted as
    start-up time.

    Args:
      timings: reductions of at least two sizes, on at least two ranks.

    Raises:
      ValueError: no non-negative costs explain the timings, or all timings are of one size.
    """
    table = np.array([[1.0, 2 * (t.ranks - 1), 2 * (t.ranks - 1) / t.ranks * t.bytes] for t in timings])
    table /= np.array([t.seconds for t in timings])[:, np.newaxis]
    best, least = None, np.inf
    for columns in ([0, 2], [0, 1, 2], [1, 2], [2]):  # the costs that are fitted; the others are 0
        solution, error = _solve(table[:, columns])
        if (solution > 0.0).all() and error < least - 1e-12:
            best, least = dict(zip(columns, solution, strict=True)), error
    if best is None or len({t.bytes for t in timings}) < 2:
        raise ValueError(f"No start, latency and bandwidth explain these reductions: {list(timings)}")
    return Costs(float(best.get(0, 0.0)), Link(float(best.get(1, 0.0)), 1.0 / float(best[2])))


def _solve(columns: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns the least-squares solution x of columns · x = 1, and its squared error."""
    scale = columns.max(axis=0)  # the columns differ by nine orders of magnitude
    solution = np.linalg.lstsq(columns / scale, np.ones(len(columns)), rcond=1e-12)[0]
    return solution / scale, float(np.sum((columns / scale @ solution - 1.0) ** 2))
