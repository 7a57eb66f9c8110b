"""Which examples make which batch: the plan of an epoch, and the stream of micro-batches.

The plan of an epoch follows from (seed, epoch, lengths, costs, batch size) alone. It is a
sequence of micro-batches that does not know how many ranks there are: one update takes
``world_size · iter_size`` consecutive ones, of which rank r takes the r-th of each group
of ``world_size``. So a run can be resumed at any micro-batch, on any number of ranks,
without replaying anything, and every rank has equal work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from open_seq2seq.data.batch_loader import DEFAULT_PREFETCH, BatchLoader
from open_seq2seq.data.static_shapes import Arrangement, StaticShape, arrange, assign_shapes, choose_shapes
from open_seq2seq.utils.errors import ConfigError, DataError

__all__ = ["BatchLoader", "BatchStream", "EpochPlan", "EpochPlanner", "evaluation_batches", "evaluation_plan",
           "plan_epoch"]


@dataclass(frozen=True)
class EpochPlan:
    """The micro-batches of one epoch, as slices of a permutation.

    Attributes:
      order: example numbers ``[examples]``, each once.
      offsets: where the slices of ``order`` begin and end ``[batches + 1]``.
      sequence: which slice comes when ``[batches]``.
    """

    order: np.ndarray
    offsets: np.ndarray
    sequence: np.ndarray

    def __len__(self) -> int:
        return len(self.sequence)

    def batch(self, index: int) -> np.ndarray:
        """Returns the example numbers ``[batch]`` of the micro-batch at this place of the epoch."""
        cut = self.sequence[index]
        return self.order[self.offsets[cut]:self.offsets[cut + 1]]


def _say_too_costly(example: int) -> str:
    return f"Example {example} alone costs more than a batch may: raise batch_size_per_gpu."


class EpochPlanner:
    """Makes the plans of all epochs of one data set.

    A batch costs its rows times the greatest cost in it, which is at most ``batch_size``. Costs are
    numbers in a unit of the data layer's: 1 for each example where a batch is so many examples, its
    longest side where a batch is so many tokens or frames, padding included.

    With length buckets, examples are sorted most costly first, then longest first (by the
    longer side, then by the other one) and cut into batches, so that a batch has next to no
    padding. Where to cut follows from the sorted costs alone, so every epoch has the same number
    of batches; what shuffles are the examples of equal lengths, and the batches.

    With ``max_shapes`` each example belongs to the narrowest of a few static shapes that
    holds it, and a batch is made of random examples of one shape (see ``static_shapes``).

    Args:
      lengths: integers ``[examples]``, or ``[examples, columns]`` (source and target): how wide the batch is
        that an example needs.
      batch_size: what a micro-batch may cost: a number of examples, where each costs 1.
      costs: integers ``[examples]`` in the unit of ``batch_size``; 1 each by default.
      bucketed: whether examples of like length are batched together. Where examples cost more than 1 they always are.
      max_shapes: how many static shapes batches may be padded to; None for any.
      strict: whether an example that alone costs more than a batch may is an error;
        otherwise it makes a batch of its own.
      explain: number of such an example → the message, ``DataLayer.explain_too_costly``.

    Attributes:
      shapes: the static shapes, narrowest first; none without ``max_shapes``.
      arrangement: how many batches each of them has, and where they are cut; None without ``max_shapes``.

    Raises:
      ConfigError: a batch size below 1, or static shapes for batches that are not bucketed.
      DataError: no examples, costs that are not one integer of 0 or more for each, or (``strict``) an example
        that costs more than a batch may.
    """

    def __init__(self, lengths: np.ndarray, *, batch_size: int, costs: np.ndarray | None = None, bucketed: bool = True,
                 strict: bool = True, max_shapes: int | None = None,
                 explain: Callable[[int], str] = _say_too_costly) -> None:
        lengths = np.asarray(lengths)
        if batch_size < 1:
            raise ConfigError([f"The batch size is {batch_size} but has to be at least 1."])
        if not len(lengths):
            raise DataError("There are no examples to make batches of.")
        if max_shapes and not bucketed:
            raise ConfigError(["'xla_buckets' batches examples of like length together, but 'length_buckets' is False: "
                               "leave one of them out."])
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
        """How many micro-batches each epoch has."""
        return len(self.offsets) - 1

    def plan(self, epoch: int = 0, *, shuffle: bool, seed: int = 0) -> EpochPlan:
        """Returns the plan of one epoch; unshuffled plans are the same in all epochs."""
        order = np.arange(self.num_examples, dtype=self._index_type)
        sequence = np.arange(self.num_batches)
        if shuffle:
            entropy = np.random.SeedSequence([seed & (2**64 - 1), epoch])
            random = np.random.Generator(np.random.Philox(entropy))
            random.shuffle(order)
            random.shuffle(sequence)
        if self._keys:  # lexsort is stable: examples of equal lengths stay in random order
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
    """Returns keys for ``np.lexsort`` (last one first in rank) that put the costliest examples first, then the longest.

    Sorting takes time by the key: costs are none where they are all the same, or the longest sides themselves.
    """
    longest = lengths if lengths.ndim == 1 else lengths.max(axis=1)
    sides = [longest] if lengths.ndim == 1 else [lengths.sum(axis=1) - longest, longest]
    if costs.min() != costs.max() and not np.array_equal(costs, longest):
        sides.append(costs)
    keys = []
    for side in sides:
        top = int(side.max())
        # NumPy's stable sort of 16-bit integers is a radix sort, ten times as fast as the others.
        keys.append((top - side).astype(np.uint16 if top - int(side.min()) < 2**16 else np.int64))
    return tuple(keys)


def _cut(costs: np.ndarray, batch_size: int) -> np.ndarray:
    """Cuts examples, the costliest first, into batches that cost at most ``batch_size``, greedily."""
    count, most = len(costs), max(1, int(costs.max()))
    if costs.min() == most or most == 1:
        return np.append(np.arange(0, count, max(1, batch_size // most)), count)
    falling = np.sort(costs)[::-1]
    offsets, begin = [0], 0
    while begin < count:
        begin = min(count, begin + max(1, batch_size // max(1, int(falling[begin]))))
        offsets.append(begin)
    return np.asarray(offsets)


def plan_epoch(lengths: np.ndarray, *, batch_size: int, costs: np.ndarray | None = None, shuffle: bool = True,
               seed: int = 0, epoch: int = 0, bucketed: bool = True) -> EpochPlan:
    """Returns the plan of one epoch; see ``EpochPlanner`` for the arguments and errors."""
    return EpochPlanner(lengths, batch_size=batch_size, costs=costs, bucketed=bucketed).plan(
        epoch, shuffle=shuffle, seed=seed)


class BatchStream:
    """The endless sequence of training micro-batches, seen from one rank.

    Micro-batches are numbered from 0 since the start of training, over all ranks; number m
    stands in epoch ``m // micro_batches_per_epoch``. Each epoch's plan is computed while
    the epoch before is read, and any place can be reached at once.

    Args:
      lengths: see ``EpochPlanner``, and so for ``batch_size``, ``costs``, ``bucketed``, ``explain``.
      batch_size: what a micro-batch may cost.
      costs: of the examples ``[examples]``; 1 each by default.
      shuffle: whether each epoch has its own random order.
      bucketed: whether examples of like length are batched together.
      seed: of the shuffling.
      world_size: number of ranks.
      rank: this rank, from 0.
      replicas: how many consecutive ranks from there are read by this process, by a thread each.
      iter_size: micro-batches that each rank takes for one update.
      max_shapes: how many static shapes batches may be padded to; None for any.
      explain: example number → the message that it costs more than a batch may, ``DataLayer.explain_too_costly``.

    Raises:
      ConfigError: an update takes more micro-batches than an epoch has.
      DataError: fewer examples than one batch is to have, or one that costs more than a batch may.
    """

    def __init__(self, lengths: np.ndarray, *, batch_size: int, costs: np.ndarray | None = None, shuffle: bool = True,
                 bucketed: bool = True, seed: int = 0, world_size: int = 1, rank: int = 0, replicas: int = 1,
                 iter_size: int = 1, max_shapes: int | None = None,
                 explain: Callable[[int], str] = _say_too_costly) -> None:
        if batch_size > len(lengths) and (costs is None or np.max(costs, initial=0) <= 1):
            raise DataError(f"Overall batch size is too big: batch_size_per_gpu is {batch_size}, but there are only "
                            f"{len(lengths)} training examples: lower it or give more data.")
        self._planner = EpochPlanner(lengths, batch_size=batch_size, costs=costs, bucketed=bucketed,
                                     max_shapes=max_shapes, explain=explain)
        if world_size * iter_size > self._planner.num_batches:
            raise ConfigError([
                f"Overall batch size is too big: one update takes {world_size * iter_size} batches ({world_size} "
                f"devices, iter_size {iter_size}), but the training data make only {self._planner.num_batches}: lower "
                "batch_size_per_gpu or iter_size."])
        self._shuffle, self._seed = shuffle, seed
        self.world_size, self.rank, self.iter_size = world_size, rank, iter_size
        self._replicas = replicas
        self._plans: dict[int, Future] = {}
        self._lock = threading.Lock()

    @property
    def shapes(self) -> list[StaticShape]:
        """The static shapes that batches are to be padded to, narrowest first; none without ``max_shapes``."""
        return self._planner.shapes

    @property
    def arrangement(self) -> Arrangement | None:
        """How many batches each static shape has; None without ``max_shapes``."""
        return self._planner.arrangement

    @property
    def micro_batches_per_epoch(self) -> int:
        """How many micro-batches an epoch has, all ranks together."""
        return self._planner.num_batches

    @property
    def updates_per_epoch(self) -> int:
        """How many whole updates an epoch has; what is left over opens the next epoch's first update."""
        return self._planner.num_batches // (self.world_size * self.iter_size)

    def examples(self, index: int) -> np.ndarray:
        """Returns the example numbers ``[batch]`` of a micro-batch, by its number since the start of training."""
        epoch, position = divmod(index, self._planner.num_batches)
        return self.plan(epoch).batch(position)

    def epoch_of(self, index: int) -> int:
        """Returns the epoch, from 0, of a micro-batch, by its number since the start of training."""
        return index // self._planner.num_batches

    def iterate(self, start: int = 0) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (number, example numbers) of this rank's micro-batches: ``start + rank``, then every world-sized step.

        Args:
          start: number of micro-batches that all ranks together have consumed before.
        """
        return self.by_rank()[0].iterate(start)

    def by_rank(self) -> list[RankStream]:
        """Returns the micro-batches of each rank of this process."""
        return [RankStream(self, self.rank + number) for number in range(self._replicas)]

    def plan(self, epoch: int) -> EpochPlan:
        """Returns the plan of an epoch, and has the next one's computed in the background."""
        epoch = epoch if self._shuffle else 0
        plan = self._future(epoch).result()
        if self._shuffle:
            self._future(epoch + 1)
        return plan

    def _future(self, epoch: int) -> Future:
        with self._lock:
            if epoch not in self._plans:
                future: Future = Future()
                # Of several readers one may be in the next epoch already.
                kept = 1 if self._replicas == 1 else 2
                self._plans = {e: f for e, f in self._plans.items() if 0 < epoch - e <= kept}
                self._plans[epoch] = future
                threading.Thread(target=self._work, args=(epoch, future), name="epoch-plan", daemon=True).start()
            return self._plans[epoch]

    def _work(self, epoch: int, future: Future) -> None:
        try:
            future.set_result(self._planner.plan(epoch, shuffle=self._shuffle, seed=self._seed))
        except BaseException as error:  # noqa: B036 - raised to whoever asks for the plan
            future.set_exception(error)


@dataclass(frozen=True)
class RankStream:
    """The micro-batches of a ``BatchStream`` that one rank takes."""

    stream: BatchStream
    rank: int

    def iterate(self, start: int = 0) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (number, example numbers); see ``BatchStream.iterate``."""
        index = start + self.rank
        while True:
            yield index, self.stream.examples(index)
            index += self.stream.world_size

    def epoch_of(self, index: int) -> int:
        """Returns the epoch, from 0, of a micro-batch; see ``BatchStream.epoch_of``."""
        return self.stream.epoch_of(index)


class OnePassLoader(BatchLoader):
    """Loader over one plan: its micro-batches are dealt out to the ranks in turn.

    Args:
      ranks: those whose batches are loaded here, in the order of the plan.
    """

    def __init__(self, data_layer: Any, plan: EpochPlan, world_size: int, ranks: range, prefetch: int) -> None:
        self._own = [number for number in range(len(plan)) if number % world_size in ranks]
        super().__init__(data_layer, _PlanStream(plan, self._own), 0, prefetch)

    def __len__(self) -> int:
        return len(self._own)


@dataclass(frozen=True)
class _PlanStream:
    plan: EpochPlan
    own: list[int]

    def iterate(self, start: int) -> Iterator[tuple[int, np.ndarray]]:
        return ((index, self.plan.batch(index)) for index in self.own[start:])


def evaluation_plan(data_layer: Any, batch_size: int | None = None) -> EpochPlan:
    """Returns the batches of one pass over a data layer: all examples, in an order that is always the same.

    With length buckets the longest come first; results are put in order by the batches' ids.

    Args:
      data_layer: the layer.
      batch_size: instead of the layer's own: what a batch may cost, in the unit of the layer's costs.
    """
    planner = EpochPlanner(data_layer.lengths, batch_size=batch_size or data_layer.batch_budget, costs=data_layer.costs,
                           bucketed=data_layer.params["length_buckets"], strict=False)
    return planner.plan(shuffle=False)


def evaluation_batches(data_layer: Any, batch_size: int | None = None, *, world_size: int = 1, rank: int = 0,
                       replicas: int = 1, prefetch: int = DEFAULT_PREFETCH) -> OnePassLoader:
    """Returns a loader over one pass of a data layer, with a length: over all ranks, every example exactly once.

    Ranks may get numbers of batches that differ by one, and none at all.

    Args:
      data_layer: the layer.
      batch_size: instead of the layer's own: what a batch may cost, in the unit of the layer's costs.
      world_size: number of ranks.
      rank: the first whose batches are wanted.
      replicas: of how many ranks from there they are wanted.
      prefetch: how many finished batches wait at most.
    """
    ranks = range(rank, rank + replicas)
    return OnePassLoader(data_layer, evaluation_plan(data_layer, batch_size), world_size, ranks, prefetch)
