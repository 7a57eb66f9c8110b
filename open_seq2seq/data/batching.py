"""Assignment of examples to batches: the plan of an epoch, and the stream of micro-batches.

The plan of an epoch depends only on the seed, epoch, lengths, costs and batch size, not on the number of ranks. Here,
each replica (device) counts as a rank. One update consumes ``world_size · iter_size`` consecutive micro-batches, and
rank r gets the r-th of each group of ``world_size``. So a run can resume at any micro-batch and on any number of ranks,
and each rank gets the same number of micro-batches.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from open_seq2seq.data.batch_loader import BatchLoader, Wanted
from open_seq2seq.data.static_shapes import Arrangement, StaticShape, arrange, assign_shapes, choose_shapes
from open_seq2seq.utils.errors import ConfigError, DataError

__all__ = ["BatchLoader", "BatchStream", "EpochPlan", "EpochPlanner", "evaluation_batches", "evaluation_plan"]


@dataclass(frozen=True)
class EpochPlan:
    """The micro-batches of one epoch, as slices of a permutation.

    Attributes:
      order: example numbers ``[examples]``, each exactly once.
      offsets: positions in ``order`` at which slices begin or end ``[batches + 1]``.
      sequence: for each micro-batch of the epoch, in order, the index of its slice ``[batches]``.
    """

    order: np.ndarray
    offsets: np.ndarray
    sequence: np.ndarray

    def __len__(self) -> int:
        return len(self.sequence)

    def batch(self, index: int) -> np.ndarray:
        """Returns the example numbers ``[batch]`` of the micro-batch with this index in the epoch."""
        number = self.sequence[index]
        return self.order[self.offsets[number]:self.offsets[number + 1]]


def _explain(example: int) -> str:
    return f"Example {example} alone exceeds the batch size: raise batch_size_per_gpu."


class EpochPlanner:
    """Makes the plans of all epochs of one data set.

    The cost of a batch is its number of rows times the cost of its costliest example, and must not exceed
    ``batch_size``. The data layer chooses the unit: an example costs 1 if the batch size counts examples, or the
    length of its longest side if the batch size counts tokens or frames, padding included.

    With length buckets, examples are sorted by decreasing cost, then by the longer side, then by the other side, and
    cut into batches with almost no padding. The cuts depend only on the sorted costs, so every epoch has the same
    number of batches. Shuffling changes the order of examples of equal cost and length, and the order of the batches.

    With ``max_shapes``, each example is assigned to the narrowest static shape that it fits into, and a batch consists
    of examples of one shape, drawn at random if they are shuffled. Examples that do not fill a batch of their shape can
    be moved to a wider one (see ``static_shapes.arrange``).

    Args:
      lengths: integers ``[examples]``, or ``[examples, columns]`` for source and target.
      batch_size: maximum cost of a micro-batch.
      costs: integers ``[examples]`` in the unit of ``batch_size``; 1 for each example by default.
      bucketed: whether examples of similar length are batched together; implied by costs greater than 1.
      max_shapes: maximum number of static shapes that batches are padded to; None for arbitrary shapes.
      strict: whether to raise an error for an example that alone costs more than ``batch_size``; if False, the example
        forms a batch by itself.
      explain: returns the error message for an example that costs too much, given the example's number.

    Attributes:
      shapes: the static shapes, narrowest first; empty without ``max_shapes``.
      arrangement: how the examples of each shape are cut into batches; None without ``max_shapes``.

    Raises:
      ConfigError: the batch size is below 1, or ``max_shapes`` is given but ``bucketed`` is False.
      DataError: there are no examples, the costs are not one non-negative integer per example, or, if ``strict``, an
        example alone costs more than ``batch_size``.
    """

    def __init__(self, lengths: np.ndarray, *, batch_size: int, costs: np.ndarray | None = None, bucketed: bool = True,
                 strict: bool = True, max_shapes: int | None = None,
                 explain: Callable[[int], str] = _explain) -> None:
        lengths = np.asarray(lengths)
        if batch_size < 1:
            raise ConfigError([f"The batch size must be at least 1, got {batch_size}."])
        if not len(lengths):
            raise DataError("The data set has no examples.")
        if max_shapes and not bucketed:
            raise ConfigError(["'xla_buckets' requires 'length_buckets', but 'length_buckets' is False: remove one of "
                               "the two parameters."])
        costs = _checked_costs(costs, len(lengths))
        if strict and costs.max() > batch_size:
            raise DataError(explain(int(np.argmax(costs))))
        self.num_examples = len(lengths)
        self.shapes: list[StaticShape] = []
        self.arrangement: Arrangement | None = None
        self._index_type = np.int32 if len(lengths) < 2**31 else np.int64
        self._keys = _sort_keys(lengths, costs) if bucketed or costs.max() > 1 else ()
        self.offsets = _cut(costs, batch_size)
        if max_shapes:
            self.shapes = choose_shapes(lengths, max_shapes, batch_size, costs)
            owners = assign_shapes(lengths, self.shapes)
            self._keys = (owners,)
            self.arrangement = arrange(np.bincount(owners, minlength=len(self.shapes)).tolist(), self.shapes)
            self.offsets = np.append(0, np.cumsum(self.arrangement.sizes))

    @property
    def num_batches(self) -> int:
        """Number of micro-batches in each epoch."""
        return len(self.offsets) - 1

    def plan(self, epoch: int = 0, *, shuffle: bool, seed: int = 0) -> EpochPlan:
        """Returns the plan of one epoch; without shuffling, the plans of all epochs are the same."""
        order = np.arange(self.num_examples, dtype=self._index_type)
        sequence = np.arange(self.num_batches)
        if shuffle:
            entropy = np.random.SeedSequence([seed & (2**64 - 1), epoch])
            random = np.random.Generator(np.random.Philox(entropy))
            random.shuffle(order)
            random.shuffle(sequence)
        if self._keys:  # lexsort is stable: examples with equal keys remain in random order
            order = order[np.lexsort([key[order] for key in self._keys] if shuffle else self._keys)]
        if self.arrangement is not None:
            order = np.concatenate([order[begin:end] for begin, end in self.arrangement.pieces])
        return EpochPlan(order, self.offsets, sequence)


def _checked_costs(costs: np.ndarray | None, count: int) -> np.ndarray:
    if costs is None:
        return np.broadcast_to(np.int64(1), [count])
    costs = np.asarray(costs)
    if costs.shape != (count,) or not np.issubdtype(costs.dtype, np.integer) or costs.min() < 0:
        raise DataError(f"The costs must be non-negative integers, one for each of the {count} examples, got "
                        f"{costs.dtype} of shape {list(costs.shape)}.")
    return costs


def _sort_keys(lengths: np.ndarray, costs: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns keys for ``np.lexsort``, primary key last, that sort by decreasing cost, then by decreasing length.

    To save time, the costs are not used as a key if they are all equal, or equal to the longest sides.
    """
    longest = lengths if lengths.ndim == 1 else lengths.max(axis=1)
    sides = [longest] if lengths.ndim == 1 else [lengths.sum(axis=1) - longest, longest]
    if costs.min() != costs.max() and not np.array_equal(costs, longest):
        sides.append(costs)
    keys = []
    for side in sides:
        top = int(side.max())
        # NumPy sorts 16-bit integers with a radix sort, which is ten times as fast.
        keys.append((top - side).astype(np.uint16 if top - int(side.min()) < 2**16 else np.int64))
    return tuple(keys)


def _cut(costs: np.ndarray, batch_size: int) -> np.ndarray:
    """Cuts examples, costliest first, greedily into batches that cost at most ``batch_size``; returns the offsets."""
    count, most = len(costs), max(1, int(costs.max()))
    if costs.min() == most or most == 1:
        return np.append(np.arange(0, count, max(1, batch_size // most)), count)
    falling = np.sort(costs)[::-1]
    offsets, begin = [0], 0
    while begin < count:
        begin = min(count, begin + max(1, batch_size // max(1, int(falling[begin]))))
        offsets.append(begin)
    return np.asarray(offsets)


class MicroBatches:
    """The endless sequence of training micro-batches, which are numbered from 0 since the start of training.

    Attributes:
      world_size: number of ranks.
      rank: the first rank of this process.
      replicas: number of consecutive ranks in this process; each has its own loader thread.
      iter_size: number of micro-batches that each rank consumes per update.
      micro_batches_per_epoch: number of micro-batches of all ranks in an epoch.
    """

    micro_batches_per_epoch: int

    def __init__(self, world_size: int, rank: int, replicas: int, iter_size: int) -> None:
        self.world_size, self.rank, self.replicas, self.iter_size = world_size, rank, replicas, iter_size

    def examples(self, index: int) -> np.ndarray:
        """Returns the example numbers ``[batch]`` of micro-batch ``index``, counted from the start of training."""
        raise NotImplementedError

    def epoch_of(self, index: int) -> int:
        """Returns the epoch (from 0) of micro-batch ``index``, counted from the start of training."""
        return index // self.micro_batches_per_epoch

    def by_rank(self, start: int = 0) -> list[Iterator[Wanted]]:
        """Returns endless iterators over the micro-batches of each rank of this process.

        Args:
          start: number of micro-batches that all ranks together have already consumed.
        """
        return [(Wanted(index, self.examples(index), self.epoch_of(index))
                 for index in itertools.count(start + self.rank + number, self.world_size))
                for number in range(self.replicas)]


class BatchStream(MicroBatches):
    """The endless sequence of training micro-batches, seen from one process.

    Micro-batches are numbered from 0 since the start of training, over all ranks; number m belongs to epoch
    ``m // micro_batches_per_epoch``. Each epoch's plan is computed while the previous epoch is consumed, and the
    stream can start at any micro-batch without reading the earlier ones.

    Args:
      lengths, batch_size, costs, bucketed, max_shapes, explain: see ``EpochPlanner``.
      shuffle: whether each epoch has its own random order.
      seed: seed of the random orders.
      world_size, rank, replicas, iter_size: see ``MicroBatches``.

    Attributes:
      shapes: the static shapes that batches are padded to, narrowest first; empty without ``max_shapes``.
      arrangement: see ``EpochPlanner``.

    Raises:
      ConfigError: an update consumes more micro-batches than an epoch has; see also ``EpochPlanner``.
      DataError: there are fewer examples than rows in a batch, or an example alone costs more than ``batch_size``.
    """

    def __init__(self, lengths: np.ndarray, *, batch_size: int, costs: np.ndarray | None = None, shuffle: bool = True,
                 bucketed: bool = True, seed: int = 0, world_size: int = 1, rank: int = 0, replicas: int = 1,
                 iter_size: int = 1, max_shapes: int | None = None,
                 explain: Callable[[int], str] = _explain) -> None:
        if batch_size > len(lengths) and (costs is None or np.max(costs, initial=0) <= 1):
            raise DataError(f"Overall batch size is too big: batch_size_per_gpu is {batch_size}, but there are only "
                            f"{len(lengths)} training examples: lower batch_size_per_gpu or add data.")
        self._planner = EpochPlanner(lengths, batch_size=batch_size, costs=costs, bucketed=bucketed,
                                     max_shapes=max_shapes, explain=explain)
        self.shapes, self.arrangement = self._planner.shapes, self._planner.arrangement
        self.micro_batches_per_epoch = self._planner.num_batches
        if world_size * iter_size > self.micro_batches_per_epoch:
            raise ConfigError([
                f"Overall batch size is too big: one update takes {world_size * iter_size} batches ({world_size} "
                f"devices, iter_size {iter_size}), but an epoch has only {self.micro_batches_per_epoch}: lower "
                "batch_size_per_gpu or iter_size, use fewer devices, or add data."])
        self._shuffle, self._seed = shuffle, seed
        super().__init__(world_size, rank, replicas, iter_size)
        self._plans: dict[int, Future] = {}
        self._lock = threading.Lock()

    @property
    def updates_per_epoch(self) -> int:
        """Number of whole updates in an epoch; micro-batches left over go into the next epoch's first update."""
        return self.micro_batches_per_epoch // (self.world_size * self.iter_size)

    def examples(self, index: int) -> np.ndarray:
        """Returns the example numbers ``[batch]`` of micro-batch ``index``, counted from the start of training."""
        epoch, position = divmod(index, self.micro_batches_per_epoch)
        return self.plan(epoch).batch(position)

    def plan(self, epoch: int) -> EpochPlan:
        """Returns the plan of an epoch; if epochs are shuffled, starts computing the next plan in the background."""
        epoch = epoch if self._shuffle else 0
        plan = self._future(epoch).result()
        if self._shuffle:
            self._future(epoch + 1)
        return plan

    def _future(self, epoch: int) -> Future:
        with self._lock:
            if epoch not in self._plans:
                future: Future = Future()
                # Number of earlier plans to keep. A plan is usually computed one epoch ahead, so the plan in use is the
                # previous one. With several replicas, a slower loader thread may still use the plan before that.
                queued = 1 if self.replicas == 1 else 2
                self._plans = {e: f for e, f in self._plans.items() if 0 < epoch - e <= queued}
                self._plans[epoch] = future
                threading.Thread(target=self._work, args=(epoch, future), name="epoch-plan", daemon=True).start()
            return self._plans[epoch]

    def _work(self, epoch: int, future: Future) -> None:
        try:
            future.set_result(self._planner.plan(epoch, shuffle=self._shuffle, seed=self._seed))
        except BaseException as error:  # noqa: B036 - re-raised where the plan is requested
            future.set_exception(error)


class PlanLoader(BatchLoader):
    """Loader of some batches of a plan.

    Args:
      data_layer: makes the batches.
      plan: object whose ``batch(n)`` returns the example numbers of batch n.
      numbers: the indices n of the batches to load.
    """

    def __init__(self, data_layer: Any, plan: Any, numbers: list[int]) -> None:
        self._count = len(numbers)
        super().__init__(data_layer, (Wanted(number, plan.batch(number)) for number in numbers))

    def __len__(self) -> int:
        return self._count


def evaluation_plan(data_layer: Any) -> EpochPlan:
    """Returns the plan of one pass over all examples of a data layer, always in the same order.

    With length buckets, the costliest examples come first, so match results to examples by the ``ids`` of the batches.
    An example that alone costs more than the layer's ``batch_budget`` forms a batch by itself.
    """
    planner = EpochPlanner(data_layer.lengths, batch_size=data_layer.batch_budget, costs=data_layer.costs,
                           bucketed=data_layer.params["length_buckets"], strict=False)
    return planner.plan(shuffle=False)


def evaluation_batches(data_layer: Any, *, world_size: int = 1, rank: int = 0, replicas: int = 1) -> PlanLoader:
    """Returns a loader of this process's batches in one pass over a data layer.

    Batches are assigned to the ranks round-robin, so the ranks' numbers of batches may differ by one. Over all ranks,
    every example occurs exactly once.

    Args:
      data_layer: the data layer.
      world_size: number of ranks.
      rank: the first rank of this process.
      replicas: number of consecutive ranks in this process.
    """
    plan, ranks = evaluation_plan(data_layer), range(rank, rank + replicas)
    numbers = [number for number in range(len(plan)) if number % world_size in ranks]
    return PlanLoader(data_layer, plan, numbers)
