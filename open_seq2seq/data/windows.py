"""One pass over a data set in windows of consecutive examples, so that results can be written early.

Batches of examples of similar length do not come in the order of the input. So the results of a window are sorted and
written before those of the next window. Windows depend only on the lengths and the batch size, so batches are the same
on any number of ranks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from open_seq2seq.data.batch_loader import DEFAULT_PREFETCH, BatchLoader
from open_seq2seq.data.batching import EpochPlan, EpochPlanner
from open_seq2seq.data.contiguous import PassBatch

WINDOW_BATCHES = 64
"""Least number of batches in a window: enough to save nearly all padding by sorting examples by length."""

WINDOW_EXAMPLES = 65_536
"""Greatest number of examples in a window, because their results are in memory together."""


class WindowedPlan:
    """The batches of one pass, window by window; the plan of a window is made when it is needed.

    A set of fewer than ``WINDOW_BATCHES`` batches is one window, with the batches of ``batching.evaluation_plan``.

    Args:
      lengths: see ``batching.EpochPlanner``, also for ``batch_size``, ``costs`` and ``bucketed``.

    Attributes:
      cuts: bounds of the windows in examples ``[windows + 1]``.
      batches: number of batches of each window ``[windows]``.
    """

    def __init__(self, lengths: np.ndarray, *, batch_size: int, costs: np.ndarray | None = None,
                 bucketed: bool = True) -> None:
        self._lengths = np.asarray(lengths)
        # An array of ones would only take memory.
        self._costs = None if costs is None or np.all(np.asarray(costs) == 1) else np.asarray(costs)
        self._settings: dict[str, Any] = {"batch_size": batch_size, "bucketed": bucketed}
        self._index_type: Any = np.int32 if len(self._lengths) < 2**31 else np.int64
        self.cuts = self._cut(batch_size)
        self.batches = np.asarray([self._planner(number).num_batches for number in range(len(self))])

    def _cut(self, batch_size: int) -> np.ndarray:
        """Returns ``cuts``: each window has the costs of enough batches, or the greatest number of examples.

        It reads the costs of one window at a time to save memory.
        """
        cuts, total = [0], len(self._lengths)
        if not total:
            return np.asarray([0, 0])  # the planner raises the error
        while cuts[-1] < total:
            begin = cuts[-1]
            count = min(WINDOW_EXAMPLES, total - begin)
            costs = np.ones(count, np.int64) if self._costs is None else self._costs[begin:begin + count]
            # An example that costs more than a batch may is a batch by itself.
            filled = np.cumsum(np.minimum(costs, batch_size), dtype=np.int64)
            needed = int(np.searchsorted(filled, batch_size * WINDOW_BATCHES)) + 1
            cuts.append(begin + max(1, min(needed, count)))
        return np.asarray(cuts)

    def _planner(self, window: int) -> EpochPlanner:
        held = slice(self.cuts[window], self.cuts[window + 1])
        return EpochPlanner(self._lengths[held], costs=None if self._costs is None else self._costs[held], strict=False,
                            **self._settings)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def window(self, number: int) -> EpochPlan:
        """Returns the plan of a window, with the example numbers of the whole set."""
        plan = self._planner(number).plan(shuffle=False)
        first = np.asarray(self.cuts[number], self._index_type)
        return EpochPlan(plan.order.astype(self._index_type) + first, plan.offsets, plan.sequence)


def inference_plan(data_layer: Any) -> WindowedPlan:
    """Returns the batches of one pass over a data layer, in windows of consecutive examples."""
    return WindowedPlan(data_layer.lengths, batch_size=data_layer.batch_budget, costs=data_layer.costs,
                        bucketed=data_layer.params["length_buckets"])


@dataclass(frozen=True)
class _WindowStream:
    plan: WindowedPlan
    world_size: int
    ranks: range

    def iterate(self, start: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (number in its window, example numbers) of these ranks' batches, from window ``start`` on."""
        for number in range(start, len(self.plan)):
            plan = self.plan.window(number)
            for place in range(len(plan)):
                if place % self.world_size in self.ranks:
                    yield place, plan.batch(place)


class WindowLoader(BatchLoader):
    """Loader over one pass in windows, whose batches are dealt out to the ranks in turn.

    Args:
      plan: from ``inference_plan``.
      ranks: the ranks whose batches are loaded here.

    Attributes:
      own: number of batches of each window that are loaded here ``[windows]``, possibly 0.
    """

    def __init__(self, data_layer: Any, plan: WindowedPlan, world_size: int = 1, ranks: range = range(1),
                 prefetch: int = DEFAULT_PREFETCH) -> None:
        self.own: np.ndarray = np.sum([(plan.batches + world_size - 1 - rank) // world_size for rank in ranks], axis=0)
        super().__init__(data_layer, _WindowStream(plan, world_size, ranks), 0, prefetch)

    def __len__(self) -> int:
        return int(np.sum(self.own))

    def rounds(self, count: int, replicas: int) -> Iterator[list[PassBatch]]:
        """Yields the next ``count`` batches, those of one window, as many at a time as there are replicas."""
        while count > 0:
            # Batches are numbered within their window.
            yield [PassBatch(self.index, True, batch) for batch in itertools.islice(self, min(count, replicas))]
            count -= replicas
