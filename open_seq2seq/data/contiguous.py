"""Batches whose rows continue rows of earlier batches, to carry a state (truncated back-propagation).

The examples of a contiguous data layer are consecutive pieces of one sequence. An update consumes G = ``world_size`` ×
``iter_size`` micro-batches, and the sequence is cut into stretches of equal length, one for each row of these G
micro-batches. Row k of micro-batch i continues in row k of micro-batch i + G; both belong to slot i mod G, and each
replica keeps one state for each of its slots. The rows depend only on the product G, not on its factors, so a run
can resume on another number of devices if G stays the same. Examples are not shuffled, and no plan is stored: the
examples of a micro-batch are computed from its number with a few divisions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from open_seq2seq.data.batching import EpochPlan, MicroBatches, PlanLoader, evaluation_batches
from open_seq2seq.utils.errors import DataError

if TYPE_CHECKING:
    from open_seq2seq.data.data_layer import DataLayer


def contiguous_problems(layer: DataLayer, xla_buckets: int | None = None) -> list[str]:
    """Returns one sentence for each parameter whose value cannot be combined with a contiguous data layer.

    Args:
      layer: the contiguous data layer.
      xla_buckets: the model's parameter ``xla_buckets``.
    """
    problems, params, name = [], layer.params, type(layer).__name__
    if params["shuffle"]:
        problems.append(f"'shuffle' is True, but each example of {name} continues the previous one: remove 'shuffle'.")
    if not layer.counts_examples:
        problems.append(f"'batch_size_unit' is {params['batch_size_unit']!r}, but each example of {name} continues the "
                        "previous one, so all batches need the same number of rows: remove 'batch_size_unit'.")
    if xla_buckets:
        problems.append(f"'xla_buckets' is {xla_buckets}, which batches examples of similar length together, but each "
                        f"example of {name} continues the previous one: remove 'xla_buckets'.")
    return problems


class ContiguousStream(MicroBatches):
    """The endless sequence of training micro-batches of a contiguous data layer, seen from one process.

    With G = ``world_size`` × ``iter_size``, each row has P = num_examples //
    (G · batch_size) examples in an epoch; the last few examples, which do not fill all rows, are left out. Row k of
    micro-batch i contains the example (s · batch_size + k) · P + p, where s = i mod G and p = (i // G) mod P.

    Args:
      num_examples: number of examples of the data layer; example n continues in example n + 1.
      batch_size: number of rows of a micro-batch.
      world_size, rank, replicas, iter_size: see ``MicroBatches``.

    Attributes:
      slots: number of micro-batches in an update, G.
      positions: number of updates in an epoch, P; at position 0 the carried state starts from zeros.

    Raises:
      DataError: there are fewer examples than rows in an update.
    """

    shapes: tuple = ()
    arrangement = None

    def __init__(self, num_examples: int, *, batch_size: int, world_size: int = 1, rank: int = 0, replicas: int = 1,
                 iter_size: int = 1) -> None:
        super().__init__(world_size, rank, replicas, iter_size)
        self.slots = world_size * iter_size
        self._batch_size = batch_size
        self.positions = num_examples // (self.slots * batch_size)
        if not self.positions:
            raise DataError(f"Overall batch size is too big: batch_size_per_gpu is {batch_size}, and one update takes "
                            f"{self.slots} batches ({world_size} devices, iter_size {iter_size}), but there are only "
                            f"{num_examples} training examples: lower batch_size_per_gpu or iter_size, use fewer "
                            "devices, or add data.")
        self.micro_batches_per_epoch = self.positions * self.slots
        self.updates_per_epoch = self.positions

    def examples(self, index: int) -> np.ndarray:
        """Returns the example numbers ``[batch]`` of micro-batch ``index``, counted from the start of training."""
        position, slot = divmod(index, self.slots)
        return (slot * self._batch_size + np.arange(self._batch_size)) * self.positions + position % self.positions

    def plan(self, epoch: int) -> EpochPlan:
        """Returns the plan of an epoch, which is the same for all epochs."""
        batches = [self.examples(index) for index in range(self.micro_batches_per_epoch)]
        return EpochPlan(np.concatenate(batches), np.arange(len(batches) + 1) * self._batch_size,
                         np.arange(len(batches)))


class ContiguousPass:
    """The batches of one pass over a contiguous data layer: every example exactly once, on any number of ranks.

    The sequence is cut into consecutive rows, and each slot consists of ``rows`` consecutive rows. Row lengths differ
    by at most one example, and longer rows come first. So only the last batch of a slot may have fewer than ``rows``
    rows; the missing rows are the last ones.

    Args:
      num_examples: number of examples of the data layer.
      rows: number of rows in a batch.
      slots: number of batches that are processed side by side, each with its own state.

    Raises:
      DataError: there are no examples.
    """

    def __init__(self, num_examples: int, rows: int, slots: int = 1) -> None:
        if not num_examples:
            raise DataError("The data set has no examples.")
        self._rows, self.slots = rows, slots
        self._short, self._num_long = divmod(num_examples, rows * slots)
        self._offsets = np.append(0, np.cumsum(self._length(np.arange(slots) * rows)))

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def _length(self, row: Any) -> Any:
        return self._short + (row < self._num_long)

    def place(self, number: int) -> tuple[int, int]:
        """Returns (slot, position within the slot) of a batch; at position 0 the carried state starts from zeros."""
        slot = int(np.searchsorted(self._offsets, number, side="right")) - 1
        return slot, number - int(self._offsets[slot])

    def batch(self, number: int) -> np.ndarray:
        """Returns the example numbers of a batch, at most ``[rows]``."""
        slot, position = self.place(number)
        rows = slot * self._rows + np.arange(self._rows)
        rows = rows[self._length(rows) > position]
        return rows * self._short + np.minimum(rows, self._num_long) + position

    def rounds(self, world_size: int = 1, rank: int = 0, replicas: int = 1) -> Iterator[list[int]]:
        """Yields lists of the numbers of the batches that a process runs in parallel on its replicas.

        A replica runs all batches of one slot before the next slot. A list has one batch for each replica whose slot
        is not finished.

        Args:
          world_size: number of ranks.
          rank: the first rank of the process.
          replicas: number of consecutive ranks in the process.
        """
        for first in range(rank, self.slots, world_size):
            if self._offsets[first] == len(self):  # this slot and the later ones have no examples
                return
            slots = range(first, min(first + replicas, self.slots))
            for position in range(int(self._offsets[first + 1] - self._offsets[first])):
                # A slot has at most as many batches as the slot before it, so the first slot of ``own`` has the most.
                yield [int(self._offsets[slot]) + position for slot in slots
                       if position < self._offsets[slot + 1] - self._offsets[slot]]


class PassBatch(NamedTuple):
    """A batch of one pass over a data layer.

    Attributes:
      number: the batch's number in the pass over all ranks; in a ``WindowLoader``, its number within the window.
      fresh: whether the carried state starts from zeros at this batch.
      batch: the batch's NumPy arrays.
    """

    number: int
    fresh: bool
    batch: dict[str, Any]


class OnePass:
    """The batches of one process in one pass over a data layer, in lists with at most one batch for each replica.

    Over all ranks, every example occurs exactly once. The object can be iterated over only once, and must be closed.

    Args:
      data_layer: the data layer.
      slots: for a contiguous layer, the number of batches that are processed side by side, each with its own state.
      world_size: number of ranks.
      rank: the first rank of this process.
      replicas: number of consecutive ranks in this process.
    """

    def __init__(self, data_layer: Any, *, slots: int = 1, world_size: int = 1, rank: int = 0,
                 replicas: int = 1) -> None:
        self._plan: ContiguousPass | None = None
        if data_layer.contiguous:
            self._plan = ContiguousPass(data_layer.num_examples, data_layer.params["batch_size"], slots)
            rounds = list(self._plan.rounds(world_size, rank, replicas))
            self._sizes: Iterator[int] = iter([len(numbers) for numbers in rounds])
            self._loader = PlanLoader(data_layer, self._plan, list(itertools.chain.from_iterable(rounds)))
        else:
            self._sizes = itertools.repeat(replicas)
            self._loader = evaluation_batches(data_layer, world_size=world_size, rank=rank, replicas=replicas)

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
