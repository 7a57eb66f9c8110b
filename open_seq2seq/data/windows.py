"""One pass over a data set in windows of consecutive examples, so that results can be written while it goes on.

Batches of examples of like length do not come in the order of the input. Within a window they may come in any order:
its results are put in order and written before those of the next one are kept. Windows follow from the lengths and the
batch size alone, so that batches are the same on any number of ranks.
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
"""A window has at least as many batches' worth of examples: sorting them by length then saves nearly all padding."""

WINDOW_EXAMPLES = 65_536
"""A window has at most so many examples, since their results are held in memory together."""


class WindowedPlan:
    """The batches of one pass, window by window; the plan of a window is made when it is asked for.

    A set of fewer than ``WINDOW_BATCHES`` batches is one window, with the batches of ``batching.evaluation_plan``.

    Args:
      lengths: see ``batching.EpochPlanner``, and so for ``batch_size``, ``costs`` and ``bucketed``.
      batch_size: what a batch may cost.
      costs: of the examples ``[examples]``; 1 each by default.
      bucketed: whether examples of like length are batched together.

    Attributes:
      cuts: where the windows begin and end, in examples ``[windows + 1]``.
      batches: how many batches each has ``[windows]``.
    """

    def __init__(self, lengths: np.ndarray, *, batch_size: int, costs: np.ndarray | None = None,
                 bucketed: bool = True) -> None:
        self._lengths = np.asarray(lengths)
        # An array of ones would be noticed in memory, too.
        self._costs = None if costs is None or np.all(np.asarray(costs) == 1) else np.asarray(costs)
        self._settings: dict[str, Any] = {"batch_size": batch_size, "bucketed": bucketed}
        self._index_type: Any = np.int32 if len(self._lengths) < 2**31 else np.int64
        self.cuts = self._cut(batch_size)
        self.batches = np.asarray([self._planner(number).num_batches for number in range(len(self))])

    def _cut(self, batch_size: int) -> np.ndarray:
        """Cuts where the examples' costs make up a window's batches, or examples are enough.

        Looks at one window's costs at a time: another array for all examples would be noticed in memory.
        """
        cuts, total = [0], len(self._lengths)
        if not total:
            return np.asarray([0, 0])  # the planner says what is wrong
        while cuts[-1] < total:
            begin = cuts[-1]
            count = min(WINDOW_EXAMPLES, total - begin)
            costs = np.ones(count, np.int64) if self._costs is None else self._costs[begin:begin + count]
            # What costs more than a batch may makes one of its own.
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
        """Returns the batches of a window; its examples have the numbers that they have in the whole set."""
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
    """Loader over one pass in windows: the batches of each are dealt out to the ranks in turn.

    Args:
      ranks: those whose batches are loaded here.

    Attributes:
      own: how many batches of each window are loaded here ``[windows]``; windows of several ranks may have none.
    """

    def __init__(self, data_layer: Any, plan: WindowedPlan, world_size: int = 1, ranks: range = range(1),
                 prefetch: int = DEFAULT_PREFETCH) -> None:
        self.own: np.ndarray = np.sum([(plan.batches + world_size - 1 - rank) // world_size for rank in ranks], axis=0)
        super().__init__(data_layer, _WindowStream(plan, world_size, ranks), 0, prefetch)

    def __len__(self) -> int:
        return int(np.sum(self.own))

    def rounds(self, count: int, replicas: int) -> Iterator[list[PassBatch]]:
        """Yields the next batches, as many at a time as there are replicas; fewer may come last.

        Args:
          count: how many in all: those of one window.
        """
        while count > 0:
            # Their numbers are those of the batches in the window.
            yield [PassBatch(self.index, True, batch) for batch in itertools.islice(self, min(count, replicas))]
            count -= replicas
