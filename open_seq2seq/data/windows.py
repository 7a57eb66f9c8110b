"""One pass over a data set in windows of consecutive examples, so that results can be written early.

Batching examples by length changes their order. Therefore each window is batched by itself, and its results are
sorted and written before those of the next window. The windows depend only on the examples' lengths and costs and on
the batch size, so the batches are the same for any number of ranks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from open_seq2seq.data.batch_loader import BatchLoader, Wanted
from open_seq2seq.data.batching import EpochPlan, EpochPlanner
from open_seq2seq.data.contiguous import PassBatch

WINDOW_BATCHES = 64
"""Number of batches after which a window ends: enough for sorting by length to save nearly all padding."""

WINDOW_EXAMPLES = 65_536
"""Maximum number of examples in a window, because the results of a whole window are kept in memory."""


class WindowedPlan:
    """The batches of one pass, window by window; the plan of a window is computed on demand.

    A data set of fewer than ``WINDOW_BATCHES`` batches and at most ``WINDOW_EXAMPLES`` examples is a single window,
    with the same batches as in ``batching.evaluation_plan``.

    Args:
      lengths, batch_size, costs, bucketed: see ``batching.EpochPlanner``.

    Attributes:
      cuts: example numbers at which windows begin or end ``[windows + 1]``.
      batches: number of batches of each window ``[windows]``.
    """

    def __init__(self, lengths: np.ndarray, *, batch_size: int, costs: np.ndarray | None = None,
                 bucketed: bool = True) -> None:
        self._lengths = np.asarray(lengths)
        # None stands for costs of 1, to save the memory of an array of ones.
        self._costs = None if costs is None or np.all(np.asarray(costs) == 1) else np.asarray(costs)
        self._settings: dict[str, Any] = {"batch_size": batch_size, "bucketed": bucketed}
        self._index_type: Any = np.int32 if len(self._lengths) < 2**31 else np.int64
        self.cuts = self._cut(batch_size)
        self.batches = np.asarray([self._planner(number).num_batches for number in range(len(self))])

    def _cut(self, batch_size: int) -> np.ndarray:
        """Returns the example numbers at which windows begin or end ``[windows + 1]``.

        A window ends as soon as its costs fill ``WINDOW_BATCHES`` batches, or it has ``WINDOW_EXAMPLES`` examples. To
        save memory, the costs are summed one window at a time.
        """
        cuts, total = [0], len(self._lengths)
        if not total:
            return np.asarray([0, 0])  # the planner raises the error for an empty data set
        while cuts[-1] < total:
            begin = cuts[-1]
            count = min(WINDOW_EXAMPLES, total - begin)
            costs = np.ones(count, np.int64) if self._costs is None else self._costs[begin:begin + count]
            # An example that costs more than batch_size forms a batch by itself.
            filled = np.cumsum(np.minimum(costs, batch_size), dtype=np.int64)
            needed = int(np.searchsorted(filled, batch_size * WINDOW_BATCHES)) + 1
            cuts.append(begin + max(1, min(needed, count)))
        return np.asarray(cuts)

    def _planner(self, window: int) -> EpochPlanner:
        examples = slice(self.cuts[window], self.cuts[window + 1])
        costs = None if self._costs is None else self._costs[examples]
        return EpochPlanner(self._lengths[examples], costs=costs, strict=False, **self._settings)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def window(self, number: int) -> EpochPlan:
        """Returns the plan of a window; its example numbers count from the start of the data set."""
        plan = self._planner(number).plan(shuffle=False)
        first = np.asarray(self.cuts[number], self._index_type)
        return EpochPlan(plan.order.astype(self._index_type) + first, plan.offsets, plan.sequence)

    def of_ranks(self, world_size: int, ranks: range) -> Iterator[Wanted]:
        """Yields the batches of some ranks, window by window, with their numbers within the window."""
        for window in map(self.window, range(len(self))):
            for number in range(len(window)):
                if number % world_size in ranks:
                    yield Wanted(number, window.batch(number))


def inference_plan(data_layer: Any) -> WindowedPlan:
    """Returns the plan of one pass over a data layer, in windows of consecutive examples."""
    return WindowedPlan(data_layer.lengths, batch_size=data_layer.batch_budget, costs=data_layer.costs,
                        bucketed=data_layer.params["length_buckets"])


class WindowLoader(BatchLoader):
    """Loader of one pass in windows; the batches of each window are assigned to the ranks round-robin.

    Args:
      data_layer: makes the batches.
      plan: the plan, such as that of ``inference_plan``.
      world_size: number of ranks.
      ranks: the consecutive ranks whose batches this loader makes.

    Attributes:
      own: number of batches that this loader makes in each window ``[windows]``, possibly 0.
    """

    def __init__(self, data_layer: Any, plan: WindowedPlan, world_size: int = 1,
                 ranks: range = range(1)) -> None:
        self.own: np.ndarray = np.sum([(plan.batches + world_size - 1 - rank) // world_size for rank in ranks], axis=0)
        super().__init__(data_layer, plan.of_ranks(world_size, ranks))

    def __len__(self) -> int:
        return int(np.sum(self.own))

    def rounds(self, count: int, replicas: int) -> Iterator[list[PassBatch]]:
        """Yields the next ``count`` batches, in lists with at most one batch for each replica.

        Args:
          count: number of batches to yield, such as all that this loader makes in the next window (see ``own``).
          replicas: number of replicas that process the batches of a list in parallel.
        """
        while count > 0:
            yield [PassBatch(self.index, True, batch) for batch in itertools.islice(self, min(count, replicas))]
            count -= replicas
