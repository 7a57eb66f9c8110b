"""Batches whose rows continue from one to the next, for state that is carried over (truncated back-propagation).

The examples of a contiguous data layer are consecutive pieces of a sequence. An epoch cuts it into as many rows as all
batches of an update have together. Micro-batch i belongs to slot i mod G, where G = ranks × replicas × ``iter_size``,
and its row k continues in row k of micro-batch i + G. So a replica keeps a state for each micro-batch that it takes for
an update, and any division of G reads the same rows. Nothing is shuffled or stored: the place of an example is computed
by a few divisions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from open_seq2seq.data.batch_loader import DEFAULT_PREFETCH
from open_seq2seq.data.batching import EpochPlan, PlanLoader, RankStream, evaluation_batches
from open_seq2seq.utils.errors import DataError

if TYPE_CHECKING:
    from open_seq2seq.data.data_layer import DataLayer


def contiguous_problems(layer: DataLayer, xla_buckets: int | None = None) -> list[str]:
    """Returns the parameters that a contiguous data layer cannot be combined with, one sentence each.

    Args:
      xla_buckets: the model's parameter.
    """
    problems, params, name = [], layer.params, type(layer).__name__
    if params["shuffle"]:
        problems.append(f"'shuffle' is True, but the examples of {name} continue one another: leave it out.")
    if not layer.counts_examples:
        problems.append(f"'batch_size_unit' is {params['batch_size_unit']!r}, but batches of {name}, whose examples "
                        "continue one another, always have the same number of rows: leave it out.")
    if xla_buckets:
        problems.append(f"'xla_buckets' is {xla_buckets}, but it batches examples of similar length together, and "
                        f"those of {name} continue one another: leave it out.")
    return problems


class ContiguousStream:
    """The endless sequence of training micro-batches of a contiguous data layer, seen from one process.

    It is used like ``BatchStream``. An epoch takes P = examples // (G · batch size) examples for each row; the few
    examples at the end that do not fill all rows are left out. Row k of micro-batch i has the example
    (s · batch size + k) · P + p, where s = i mod G and p = i // G mod P.

    Args:
      num_examples: of the data layer; example n continues in example n + 1.
      batch_size: rows of a micro-batch.
      iter_size: micro-batches that each rank takes for one update.

    Attributes:
      slots: G.
      positions: P, also the number of updates of an epoch; at the first position the carried state starts from zeros.
      micro_batches_per_epoch: of all ranks together.

    Raises:
      DataError: fewer examples than all rows together.
    """

    shapes: tuple = ()
    arrangement = None

    def __init__(self, num_examples: int, *, batch_size: int, world_size: int = 1, rank: int = 0, replicas: int = 1,
                 iter_size: int = 1) -> None:
        self.world_size, self.rank, self.iter_size = world_size, rank, iter_size
        self.slots = world_size * iter_size
        self._batch_size, self._replicas = batch_size, replicas
        self.positions = num_examples // (self.slots * batch_size)
        if not self.positions:
            raise DataError(f"Overall batch size is too big: batch_size_per_gpu is {batch_size}, and one update takes "
                            f"{self.slots} batches ({world_size} devices, iter_size {iter_size}), but there are only "
                            f"{num_examples} training examples: lower it or give more data.")

        self.micro_batches_per_epoch = self.positions * self.slots
        self.updates_per_epoch = self.positions

    def epoch_of(self, index: int) -> int:
        """Returns the epoch, from 0, of a micro-batch, by its number since the start of training."""
        return index // self.micro_batches_per_epoch

    def examples(self, index: int) -> np.ndarray:
        """Returns the example numbers ``[batch]`` of a micro-batch, by its number since the start of training."""
        position, slot = divmod(index, self.slots)
        return (slot * self._batch_size + np.arange(self._batch_size)) * self.positions + position % self.positions

    def plan(self, epoch: int) -> EpochPlan:
        """Returns the plan of an epoch, which is the same for all epochs; see ``BatchStream.plan``."""
        batches = [self.examples(index) for index in range(self.micro_batches_per_epoch)]
        return EpochPlan(np.concatenate(batches), np.arange(len(batches) + 1) * self._batch_size,
                         np.arange(len(batches)))

    def by_rank(self) -> list[RankStream]:
        """Returns the micro-batches of each rank of this process."""
        return [RankStream(self, self.rank + number) for number in range(self._replicas)]


class ContiguousPass:
    """The batches of one pass over a contiguous data layer: every example exactly once, on any number of ranks.

    The rows of all slots follow one another in the sequence. Their lengths differ by one example at most, and the
    longer ones come first. So only the last rows of a slot's last batches may be missing.

    Args:
      num_examples: of the data layer.
      slots: number of batches side by side, each with its own state.

    Raises:
      DataError: no examples.
    """

    def __init__(self, num_examples: int, rows: int, slots: int = 1) -> None:
        if not num_examples:
            raise DataError("There are no examples to make batches of.")
        self._rows, self.slots = rows, slots
        self._short, self._num_long = divmod(num_examples, rows * slots)
        self._offsets = np.append(0, np.cumsum(self._length(np.arange(slots) * rows)))

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def _length(self, row: Any) -> Any:
        return self._short + (row < self._num_long)

    def place(self, number: int) -> tuple[int, int]:
        """Returns (slot, position in it) of a batch; at position 0 the carried state starts from zeros."""
        slot = int(np.searchsorted(self._offsets, number, side="right")) - 1
        return slot, number - int(self._offsets[slot])

    def batch(self, number: int) -> np.ndarray:
        """Returns the example numbers ``[rows or fewer]`` of a batch."""
        slot, position = self.place(number)
        rows = slot * self._rows + np.arange(self._rows)
        rows = rows[self._length(rows) > position]
        return rows * self._short + np.minimum(rows, self._num_long) + position

    def rounds(self, world_size: int = 1, rank: int = 0, replicas: int = 1) -> Iterator[list[int]]:
        """Yields the numbers of the batches that a process runs at a time, one on each replica that is not finished.

        A replica runs all batches of a slot before it takes another slot.
        """
        for first in range(rank, self.slots, world_size):
            if self._offsets[first] == len(self):  # this slot and the later ones have no examples
                return
            own = range(first, min(first + replicas, self.slots))
            for position in range(int(self._offsets[first + 1] - self._offsets[first])):
                # Later slots are never longer than earlier ones.
                yield [int(self._offsets[slot]) + position for slot in own
                       if position < self._offsets[slot + 1] - self._offsets[slot]]


class PassBatch(NamedTuple):
    """A batch of one pass over a data layer.

    Attributes:
      number: its place among the batches of all ranks.
      fresh: whether carried state starts from zeros.
      batch: NumPy arrays.
    """

    number: int
    fresh: bool
    batch: dict[str, Any]


class OnePass:
    """The batches of one pass over a data layer that a process takes, as many at a time as it has replicas.

    Over all ranks every example comes exactly once. It can be iterated over once, and has to be closed.

    Args:
      slots: of a contiguous layer, the number of batches side by side.
    """

    def __init__(self, data_layer: Any, *, slots: int = 1, world_size: int = 1, rank: int = 0, replicas: int = 1,
                 prefetch: int = DEFAULT_PREFETCH) -> None:
        self._plan: ContiguousPass | None = None
        if data_layer.contiguous:
            self._plan = ContiguousPass(data_layer.num_examples, data_layer.params["batch_size"], slots)
            rounds = list(self._plan.rounds(world_size, rank, replicas))
            self._sizes: Iterator[int] = iter([len(numbers) for numbers in rounds])
            self._loader = PlanLoader(data_layer, self._plan, list(itertools.chain.from_iterable(rounds)), prefetch)
        else:
            self._sizes = itertools.repeat(replicas)
            self._loader = evaluation_batches(data_layer, world_size=world_size, rank=rank, replicas=replicas,
                                              prefetch=prefetch)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[list[PassBatch]]:
        for size in self._sizes:
            batches = [self._known(batch) for batch in itertools.islice(self._loader, size)]
            if not batches:
                return
            yield batches

    def _known(self, batch: dict[str, Any]) -> PassBatch:
        number = self._loader.index
        return PassBatch(number, self._plan is None or self._plan.place(number)[1] == 0, batch)

    def close(self) -> None:
        """Stops the thread that makes the batches."""
        self._loader.close()
