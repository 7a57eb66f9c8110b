"""Which examples make which batch: the plan of an epoch, and the stream of micro-batches.

The plan of an epoch follows from (seed, epoch, lengths, batch size) alone. It is a
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

from open_seq2seq.data.loader import DEFAULT_PREFETCH, BatchLoader
from open_seq2seq.data.static_shapes import Arrangement, StaticShape, arrange, assign_shapes, choose_shapes
from open_seq2seq.utils.errors import ConfigError, DataError

_PADDED = {"tokens": ", special ones and padding included,", "frames": ", padding included,", "samples": ""}
"""Units in which a padded batch is measured, and what a message says that they count."""

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


def _say_example(example: int) -> str:
    return f"Example {example}"


class EpochPlanner:
    """Makes the plans of all epochs of one data set.

    With length buckets, examples are sorted longest first (by the longer side, then by
    the other one) and cut into batches, so that a batch has next to no padding. Where to
    cut follows from the sorted lengths alone, so every epoch has the same number of
    batches; what shuffles are the examples of equal lengths, and the batches.

    With ``max_shapes`` each example belongs to the narrowest of a few static shapes that
    holds it, and a batch is made of random examples of one shape (see ``static_shapes``).

    Args:
      lengths: integers ``[examples]``, or ``[examples, 2]`` for source and target: tokens or frames.
      batch_size: size of a micro-batch in ``unit``.
      unit: ``sentences``, or ``tokens`` (``frames`` and ``samples`` alike): examples times the
        longest side among them, which is what a padded batch holds. Such batches are always bucketed.
      bucketed: whether examples of like length are batched together.
      max_shapes: how many static shapes batches may be padded to; None for any.
      strict: whether an example that alone is more than a batch holds is an error;
        otherwise it makes a batch of its own.
      describe: example number → how a message names it.

    Attributes:
      shapes: the static shapes, narrowest first; none without ``max_shapes``.
      arrangement: how many batches each of them has, and where they are cut; None without ``max_shapes``.

    Raises:
      ConfigError: a batch size below 1, an unknown unit, or static shapes for batches that are not bucketed.
      DataError: no examples, or (``strict``) one that is longer than a batch of tokens.
    """

    def __init__(self, lengths: np.ndarray, *, batch_size: int, unit: str = "sentences", bucketed: bool = True,
                 strict: bool = True, max_shapes: int | None = None,
                 describe: Callable[[int], str] = _say_example) -> None:
        lengths = np.asarray(lengths)
        if unit != "sentences" and unit not in _PADDED:
            raise ConfigError([f"The unit of the batch size is {unit!r} but has to be 'sentences' or one of "
                               f"{', '.join(map(repr, _PADDED))}."])
        if batch_size < 1:
            raise ConfigError([f"The batch size is {batch_size} but has to be at least 1."])
        if not len(lengths):
            raise DataError("There are no examples to make batches of.")
        if max_shapes and not bucketed:
            raise ConfigError(["'xla_buckets' batches examples of like length together, but 'length_buckets' is False: "
                               "leave one of them out."])
        self.num_examples = len(lengths)
        self.shapes: list[StaticShape] = []
        self.arrangement: Arrangement | None = None
        self._index_type = np.int32 if len(lengths) < 2**31 else np.int64
        self._keys = _sort_keys(lengths) if bucketed or unit in _PADDED else ()
        self.offsets = np.append(np.arange(0, len(lengths), batch_size), len(lengths))
        if unit in _PADDED:
            longest = lengths if lengths.ndim == 1 else lengths.max(axis=1)
            if strict:
                _check_budget(longest, batch_size, unit, describe)
            self.offsets = _cut_by_tokens(np.sort(longest)[::-1], batch_size)
        if max_shapes:
            self._use_static_shapes(lengths, choose_shapes(lengths, max_shapes, batch_size, unit))

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


def _sort_keys(lengths: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns keys for ``np.lexsort`` (last one first in rank) that put the longest examples first."""
    if lengths.ndim == 1:
        sides = [lengths]
    else:
        longest = lengths.max(axis=1)
        sides = [lengths.sum(axis=1) - longest, longest]
    keys = []
    for side in sides:
        top = int(side.max())
        # NumPy's stable sort of 16-bit integers is a radix sort, ten times as fast as the others.
        keys.append((top - side).astype(np.uint16 if top - int(side.min()) < 2**16 else np.int64))
    return tuple(keys)


def _check_budget(longest: np.ndarray, budget: int, unit: str, describe: Callable[[int], str]) -> None:
    worst = int(np.argmax(longest))
    if longest[worst] > budget:
        limit = "max_length" if unit == "tokens" else "max_duration"
        raise DataError(f"{describe(worst)} has {int(longest[worst])} {unit}{_PADDED[unit]} but a batch holds only "
                        f"{budget}: raise batch_size_per_gpu or lower {limit}.")


def _cut_by_tokens(longest_first: np.ndarray, budget: int) -> np.ndarray:
    """Cuts lengths that fall steadily into batches of at most ``budget`` padded tokens, greedily."""
    offsets, begin, count = [0], 0, len(longest_first)
    while begin < count:
        begin = min(count, begin + max(1, budget // max(1, int(longest_first[begin]))))
        offsets.append(begin)
    return np.asarray(offsets)


def plan_epoch(lengths: np.ndarray, *, batch_size: int, unit: str = "sentences", shuffle: bool = True, seed: int = 0,
               epoch: int = 0, bucketed: bool = True) -> EpochPlan:
    """Returns the plan of one epoch; see ``EpochPlanner`` for the arguments and errors."""
    return EpochPlanner(lengths, batch_size=batch_size, unit=unit, bucketed=bucketed).plan(
        epoch, shuffle=shuffle, seed=seed)


class BatchStream:
    """The endless sequence of training micro-batches, seen from one rank.

    Micro-batches are numbered from 0 since the start of training, over all ranks; number m
    stands in epoch ``m // micro_batches_per_epoch``. Each epoch's plan is computed while
    the epoch before is read, and any place can be reached at once.

    Args:
      lengths: see ``EpochPlanner``, and so for ``batch_size``, ``unit``, ``bucketed``, ``describe``.
      batch_size: size of a micro-batch.
      unit: as ``EpochPlanner`` has it.
      shuffle: whether each epoch has its own random order.
      bucketed: whether examples of like length are batched together.
      seed: of the shuffling.
      world_size: number of ranks.
      rank: this rank, from 0.
      replicas: how many consecutive ranks from there are read by this process, by a thread each.
      iter_size: micro-batches that each rank takes for one update.
      max_shapes: how many static shapes batches may be padded to; None for any.
      describe: example number → how a message names it, ``DataLayer.describe_example``.

    Raises:
      ConfigError: an update takes more micro-batches than an epoch has.
      DataError: fewer examples than one batch holds, or one that is longer than a batch of tokens.
    """

    def __init__(self, lengths: np.ndarray, *, batch_size: int, unit: str = "sentences", shuffle: bool = True,
                 bucketed: bool = True, seed: int = 0, world_size: int = 1, rank: int = 0, replicas: int = 1,
                 iter_size: int = 1, max_shapes: int | None = None,
                 describe: Callable[[int], str] = _say_example) -> None:
        if unit == "sentences" and batch_size > len(lengths):
            raise DataError(f"Overall batch size is too big: batch_size_per_gpu is {batch_size}, but there are only "
                            f"{len(lengths)} training examples: lower it or give more data.")
        self._planner = EpochPlanner(lengths, batch_size=batch_size, unit=unit, bucketed=bucketed,
                                     max_shapes=max_shapes, describe=describe)
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
      batch_size: instead of the layer's own, in the layer's unit.
    """
    params = data_layer.params
    planner = EpochPlanner(data_layer.lengths, batch_size=batch_size or params["batch_size"],
                           unit=params["batch_size_unit"], bucketed=params["length_buckets"], strict=False)
    return planner.plan(shuffle=False)


def evaluation_batches(data_layer: Any, batch_size: int | None = None, *, world_size: int = 1, rank: int = 0,
                       replicas: int = 1, prefetch: int = DEFAULT_PREFETCH) -> OnePassLoader:
    """Returns a loader over one pass of a data layer, with a length: over all ranks, every example exactly once.

    Ranks may get numbers of batches that differ by one, and none at all.

    Args:
      data_layer: the layer.
      batch_size: instead of the layer's own, in the layer's unit.
      world_size: number of ranks.
      rank: the first whose batches are wanted.
      replicas: of how many ranks from there they are wanted.
      prefetch: how many finished batches wait at most.
    """
    ranks = range(rank, rank + replicas)
    return OnePassLoader(data_layer, evaluation_plan(data_layer, batch_size), world_size, ranks, prefetch)
