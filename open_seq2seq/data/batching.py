"""Which examples make which batch: the plan of an epoch, and the stream of micro-batches.

The plan of an epoch depends only on seed, epoch, lengths, costs and batch size, not on the number of ranks. One update
takes ``world_size · iter_size`` consecutive micro-batches, of which rank r takes the r-th of each group of
``world_size``. So a run can resume at any micro-batch, on any number of ranks, and all ranks have equal work.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from open_seq2seq.data.batch_loader import DEFAULT_PREFETCH, BatchLoader
from open_seq2seq.data.static_shapes import Arrangement, StaticShape, arrange, assign_shapes, choose_shapes
from open_seq2seq.utils.errors import ConfigError, DataError

__all__ = ["BatchLoader", "BatchStream", "EpochPlan", "EpochPlanner", "evaluation_batches", "evaluation_plan"]


@dataclass(frozen=True)
class EpochPlan:
    """The micro-batches of one epoch, as slices of a permutation.

    Attributes:
      order: example numbers ``[examples]``, each once.
      offsets: bounds of the slices of ``order`` ``[batches + 1]``.
      sequence: number of the slice at each place of the epoch ``[batches]``.
    """

    order: np.ndarray
    offsets: np.ndarray
    sequence: np.ndarray

    def __len__(self) -> int:
        return len(self.sequence)

    def batch(self, index: int) -> np.ndarray:
        """Returns the example numbers ``[batch]`` of the micro-batch at this place of the epoch."""
        number = self.sequence[index]
        return self.order[self.offsets[number]:self.offsets[number + 1]]


def _explain(example: int) -> str:
    return f"Example {example} alone costs more than a batch may: raise batch_size_per_gpu."


class EpochPlanner:
    """Makes the plans of all epochs of one data set.

    The cost of a batch is its number of rows times the greatest cost of an example in it, and at most ``batch_size``.
    The data layer chooses the unit: each example costs 1 if the batch size counts examples, or the length of its
    longest side if it counts tokens or frames, padding included.

    With length buckets, examples are sorted by cost, then by their longer side, then by the other side, longest
    first, and cut into batches with almost no padding. The cuts depend on the sorted costs only, so every epoch has
    the same number of batches. Shuffling changes the order of examples of equal lengths, and the order of batches.

    With ``max_shapes`` each example belongs to the narrowest static shape that holds it, and a batch consists of
    random examples of one shape (see ``static_shapes``).

    Args:
      lengths: integers ``[examples]``, or ``[examples, columns]`` for source and target.
      batch_size: the greatest cost of a micro-batch.
      costs: integers ``[examples]`` in the unit of ``batch_size``; 1 each by default.
      bucketed: whether examples of similar length are batched together; always so if costs differ from 1.
      max_shapes: the greatest number of static shapes that batches are padded to; None for any shapes.
      strict: whether an example that alone costs more than ``batch_size`` is an error; if not, it has a batch of its
        own.
      explain: returns the message for such an example, given its number.

    Attributes:
      shapes: the static shapes, narrowest first; empty without ``max_shapes``.
      arrangement: how many batches each shape has, and where they are cut; None without ``max_shapes``.

    Raises:
      ConfigError: a batch size below 1, or static shapes for batches that are not bucketed.
      DataError: no examples, costs that are not one integer of 0 or more for each, or (``strict``) an example
        that costs more than a batch may.
    """

    def __init__(self, lengths: np.ndarray, *, batch_size: int, costs: np.ndarray | None = None, bucketed: bool = True,
                 strict: bool = True, max_shapes: int | None = None,
                 explain: Callable[[int], str] = _explain) -> None:
        lengths = np.asarray(lengths)
        if batch_size < 1:
            raise ConfigError([f"The batch size is {batch_size} but has to be at least 1."])
        if not len(lengths):
            raise DataError("There are no examples to make batches of.")
        if max_shapes and not bucketed:
            raise ConfigError(["'xla_buckets' batches examples of similar length together, but 'length_buckets' is "
                               "False: remove one of them."])
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
            self._use_static_shapes(lengths, choose_shapes(lengths, max_shapes, batch_size, costs))

    def _use_static_shapes(self, lengths: np.ndarray, shapes: list[StaticShape]) -> None:
        owners = assign_shapes(lengths, shapes)
        self.shapes, self._keys = shapes, (owners,)
        self.arrangement = arrange(np.bincount(owners, minlength=len(shapes)).tolist(), shapes)
        self.offsets = np.append(0, np.cumsum(self.arrangement.sizes))

    @property
    def num_batches(self) -> int:
        """Number of micro-batches of each epoch."""
        return len(self.offsets) - 1

    def plan(self, epoch: int = 0, *, shuffle: bool, seed: int = 0) -> EpochPlan:
        """Returns the plan of one epoch; without shuffling all epochs have the same one."""
        order = np.arange(self.num_examples, dtype=self._index_type)
        sequence = np.arange(self.num_batches)
        if shuffle:
            entropy = np.random.SeedSequence([seed & (2**64 - 1), epoch])
            random = np.random.Generator(np.random.Philox(entropy))
            random.shuffle(order)
            random.shuffle(sequence)
        if self._keys:  # lexsort is stable: examples of equal lengths remain in random order
            order = order[np.lexsort([key[order] for key in self._keys] if shuffle else self._keys)]
        if self.arrangement is not None:
            order = np.concatenate([order[begin:end] for begin, end in self.arrangement.pieces])
        return EpochPlan(order, self.offsets, sequence)


def _checked_costs(costs: np.ndarray | None, count: int) -> np.ndarray:
    if costs is None:
        return np.broadcast_to(np.int64(1), [count])
    costs = np.asarray(costs)
    if costs.shape != (count,) or not np.issubdtype(costs.dtype, np.integer) or costs.min() < 0:
        raise DataError(f"The costs of examples are {costs.dtype} {list(costs.shape)} but have to be integers of 0 or "
                        f"more, one for each of the {count} examples.")
    return costs


def _sort_keys(lengths: np.ndarray, costs: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns keys for ``np.lexsort``, the primary key last, that put the costliest examples first, then the longest.

    Each key takes time, so costs are no key if they are all equal, or equal to the longest sides.
    """
    longest = lengths if lengths.ndim == 1 else lengths.max(axis=1)
    sides = [longest] if lengths.ndim == 1 else [lengths.sum(axis=1) - longest, longest]
    if costs.min() != costs.max() and not np.array_equal(costs, longest):
        sides.append(costs)
    keys = []
    for side in sides:
        top = int(side.max())
        # NumPy sorts 16-bit integers by a radix sort, which is ten times as fast.
        keys.append((top - side).astype(np.uint16 if top - int(side.min()) < 2**16 else np.int64))
    return tuple(keys)


def _cut(costs: np.ndarray, batch_size: int) -> np.ndarray:
    """Cuts examples, costliest first, greedily into batches of a cost of at most ``batch_size``; returns offsets."""
    count, most = len(costs), max(1, int(costs.max()))
    if costs.min() == most or most == 1:
        return np.append(np.arange(0, count, max(1, batch_size // most)), count)
    falling = np.sort(costs)[::-1]
    offsets, begin = [0], 0
    while begin < count:
        begin = min(count, begin + max(1, batch_size // max(1, int(falling[begin]))))
        offsets.append(begin)
    return np.asarray(offsets)


class BatchStream:
    """The endless sequence of training micro-batches, seen from one rank.

    Micro-batches are numbered from 0 since the start of training, over all ranks; number m belongs to epoch
    ``m // micro_batches_per_epoch``. Each epoch's plan is computed while the previous epoch is read, and any place
    can be reached at once.

    Args:
      lengths: see ``EpochPlanner``, also for ``batch_size``, ``costs``, ``bucketed``, ``max_shapes`` and ``explain``.
      shuffle: whether each epoch has its own random order.
      replicas: number of consecutive ranks of this process; a thread reads for each.
      iter_size: micro-batches that each rank takes for one update.

    Attributes:
      shapes: the static shapes that batches are padded to, narrowest first; empty without ``max_shapes``.
      arrangement: how many batches each static shape has; None without ``max_shapes``.
      micro_batches_per_epoch: of all ranks together.

    Raises:
      ConfigError: an update takes more micro-batches than an epoch has.
      DataError: fewer examples than one batch is to have, or one that costs more than a batch may.
    """

    def __init__(self, lengths: np.ndarray, *, batch_size: int, costs: np.ndarray | None = None, shuffle: bool = True,
                 bucketed: bool = True, seed: int = 0, world_size: int = 1, rank: int = 0, replicas: int = 1,
                 iter_size: int = 1, max_shapes: int | None = None,
                 explain: Callable[[int], str] = _explain) -> None:
        if batch_size > len(lengths) and (costs is None or np.max(costs, initial=0) <= 1):
            raise DataError(f"Overall batch size is too big: batch_size_per_gpu is {batch_size}, but there are only "
                            f"{len(lengths)} training examples: lower it or give more data.")
        self._planner = EpochPlanner(lengths, batch_size=batch_size, costs=costs, bucketed=bucketed,
                                     max_shapes=max_shapes, explain=explain)
        self.shapes, self.arrangement = self._planner.shapes, self._planner.arrangement
        self.micro_batches_per_epoch = self._planner.num_batches
        if world_size * iter_size > self.micro_batches_per_epoch:
            raise ConfigError([
                f"Overall batch size is too big: one update takes {world_size * iter_size} batches ({world_size} "
                f"devices, iter_size {iter_size}), but the training data make only {self.micro_batches_per_epoch}: "
                "lower batch_size_per_gpu or iter_size."])
        self._shuffle, self._seed = shuffle, seed
        self.world_size, self.rank, self.iter_size = world_size, rank, iter_size
        self._replicas = replicas
        self._plans: dict[int, Future] = {}
        self._lock = threading.Lock()

    @property
    def updates_per_epoch(self) -> int:
        """Number of whole updates of an epoch; the first update of the next epoch begins with the remainder."""
        return self.micro_batches_per_epoch // (self.world_size * self.iter_size)

    def examples(self, index: int) -> np.ndarray:
        """Returns the example numbers ``[batch]`` of a micro-batch, by its number since the start of training."""
        epoch, position = divmod(index, self.micro_batches_per_epoch)
        return self.plan(epoch).batch(position)

    def iterate(self, start: int = 0) -> Iterator[tuple[int, np.ndarray]]:
        """Yields the micro-batches of this process's first rank; see ``RankStream.iterate``."""
        return self.by_rank()[0].iterate(start)

    def epoch_of(self, index: int) -> int:
        """Returns the epoch, from 0, of a micro-batch, by its number since the start of training."""
        return index // self.micro_batches_per_epoch

    def by_rank(self) -> list[RankStream]:
        """Returns the micro-batches of each rank of this process."""
        return [RankStream(self, self.rank + number) for number in range(self._replicas)]

    def plan(self, epoch: int) -> EpochPlan:
        """Returns the plan of an epoch, and starts to compute the next one in the background."""
        epoch = epoch if self._shuffle else 0
        plan = self._future(epoch).result()
        if self._shuffle:
            self._future(epoch + 1)
        return plan

    def _future(self, epoch: int) -> Future:
        with self._lock:
            if epoch not in self._plans:
                future: Future = Future()
                # One of several readers may already be in the next epoch.
                kept = 1 if self._replicas == 1 else 2
                self._plans = {e: f for e, f in self._plans.items() if 0 < epoch - e <= kept}
                self._plans[epoch] = future
                threading.Thread(target=self._work, args=(epoch, future), name="epoch-plan", daemon=True).start()
            return self._plans[epoch]

    def _work(self, epoch: int, future: Future) -> None:
        try:
            future.set_result(self._planner.plan(epoch, shuffle=self._shuffle, seed=self._seed))
        except BaseException as error:  # noqa: B036 - raised where the plan is asked for
            future.set_exception(error)


@dataclass(frozen=True)
class RankStream:
    """The micro-batches of a stream that one rank takes."""

    stream: Any
    rank: int

    def iterate(self, start: int = 0) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (number, example numbers ``[batch]``) without end.

        Args:
          start: number of micro-batches that all ranks together have consumed before.
        """
        for index in itertools.count(start + self.rank, self.stream.world_size):
            yield index, self.stream.examples(index)

    def epoch_of(self, index: int) -> int:
        """Returns the epoch, from 0, of a micro-batch."""
        return self.stream.epoch_of(index)


class PlanLoader(BatchLoader):
    """Loader over some batches of a plan.

    Args:
      plan: has the example numbers of batch n as ``plan.batch(n)``.
      numbers: of the batches.
    """

    def __init__(self, data_layer: Any, plan: Any, numbers: list[int], prefetch: int) -> None:
        self._count = len(numbers)
        super().__init__(data_layer, _PlanStream(plan, numbers), 0, prefetch)

    def __len__(self) -> int:
        return self._count


@dataclass(frozen=True)
class _PlanStream:
    plan: Any
    numbers: list[int]

    def iterate(self, start: int) -> Iterator[tuple[int, np.ndarray]]:
        return ((number, self.plan.batch(number)) for number in self.numbers[start:])


def evaluation_plan(data_layer: Any, batch_size: int | None = None) -> EpochPlan:
    """Returns the batches of one pass over a data layer: all examples, always in the same order.

    With length buckets the longest come first; the batches' ids say which results belong to which examples.

    Args:
      batch_size: the greatest cost of a batch, in the unit of the layer's costs; the layer's own by default.
    """
    planner = EpochPlanner(data_layer.lengths, batch_size=batch_size or data_layer.batch_budget, costs=data_layer.costs,
                           bucketed=data_layer.params["length_buckets"], strict=False)
    return planner.plan(shuffle=False)


def evaluation_batches(data_layer: Any, batch_size: int | None = None, *, world_size: int = 1, rank: int = 0,
                       replicas: int = 1, prefetch: int = DEFAULT_PREFETCH) -> PlanLoader:
    """Returns a loader over one pass of a data layer; over all ranks, every example comes exactly once.

    The batches are dealt out to the ranks in turn, so numbers of batches may differ by one.

    Args:
      rank: first of the ranks whose batches are loaded.
    """
    plan, ranks = evaluation_plan(data_layer, batch_size), range(rank, rank + replicas)
    numbers = [number for number in range(len(plan)) if number % world_size in ranks]
    return PlanLoader(data_layer, plan, numbers, prefetch)
