"""Loaders that make batches in a background thread while the model trains."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

DEFAULT_PREFETCH = 8
"""Number of finished batches in the queue, unless the layer's parameter ``prefetch_buffer_size`` is positive."""
_CLOSE_SECONDS = 5.0


class Wanted(NamedTuple):
    """A batch to make.

    Attributes:
      number: index of the micro-batch.
      examples: numbers of the examples in the batch ``[batch]``.
      epoch: epoch that the batch belongs to, from 0.
    """

    number: int
    examples: np.ndarray
    epoch: int = 0


class _End:
    """Last item of the queue: marks the end of the stream, or contains the error that ended it."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class BatchLoader:
    """Iterator over batches that a daemon thread makes in advance.

    An error in the thread is raised in the consumer, by the call of ``next`` for the batch that failed and by every
    later call.

    Args:
      data_layer: makes the batches.
      plan: the batches to make, which the thread requests one after the other.
      training: whether the batches are for training, where they may differ between epochs.

    Attributes:
      index: index of the micro-batch returned last; -1 before the first.
      wait_seconds: total time that the consumer has waited for batches, in seconds.
    """

    def __init__(self, data_layer: Any, plan: Iterable[Wanted], training: bool = False) -> None:
        self.index = -1
        self.wait_seconds = 0.0
        prefetch = getattr(data_layer, "params", {}).get("prefetch_buffer_size") or 0
        self._queue: queue.Queue = queue.Queue(prefetch if prefetch > 0 else DEFAULT_PREFETCH)
        self._stop = threading.Event()
        self._end: _End | None = None
        # The thread has no reference to the loader, so that an unused loader is garbage-collected.
        self._thread = threading.Thread(target=_fill, name="batch-loader", daemon=True,
                                        args=(data_layer, iter(plan), training, self._queue, self._stop))
        self._thread.start()

    def __iter__(self) -> BatchLoader:
        return self

    def __next__(self) -> dict[str, Any]:
        if self._end is None:
            began = time.perf_counter()
            item = self._queue.get()
            self.wait_seconds += time.perf_counter() - began
            if not isinstance(item, _End):
                self.index, batch = item
                return batch
            self._end = item
        if self._end.error is not None:
            raise self._end.error
        raise StopIteration

    def close(self) -> None:
        """Stops the thread; later calls of ``next`` raise StopIteration, or the thread's error if it was raised before.

        Waits at most 5 seconds for the thread, which first finishes the batch that it is making. May be called more
        than once.
        """
        self._stop.set()
        self._end = self._end or _End()
        deadline = time.monotonic() + _CLOSE_SECONDS
        while self._thread.is_alive() and time.monotonic() < deadline:
            try:  # makes room in the queue, so that a thread blocked on a full queue sees the stop event
                self._queue.get(timeout=0.02)
            except queue.Empty:
                self._thread.join(timeout=0.02)

    def __del__(self) -> None:
        if hasattr(self, "_stop"):
            self._stop.set()


class LoaderGroup:
    """Loaders of training batches for the replicas of one process; ``next`` returns their batches round-robin.

    Args:
      data_layer: makes the batches.
      plans: the batches to make for each replica.
    """

    def __init__(self, data_layer: Any, plans: Sequence[Iterable[Wanted]]) -> None:
        self._loaders = [BatchLoader(data_layer, plan, training=True) for plan in plans]
        self._turns = itertools.cycle(self._loaders)

    def __next__(self) -> dict[str, Any]:
        return next(next(self._turns))

    @property
    def wait_seconds(self) -> float:
        """Total time that the consumer has waited for batches, in seconds."""
        return sum(loader.wait_seconds for loader in self._loaders)

    def close(self) -> None:
        """Stops the threads of all loaders."""
        for loader in self._loaders:
            loader.close()


def made_batches(data_layer: Any, plan: Iterator[Wanted],
                 training: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Returns an iterator over (number, batch) of the planned batches, in order.

    Args:
      data_layer: makes the batches: all together with ``make_batches``, if it has this method, and the method does not
        return None; otherwise one at a time, with ``make_training_batch`` in training, if it has this method, or
        ``make_batch``.
      plan: the batches to make.
      training: whether the batches are for training, where they may differ between epochs.
    """
    together = getattr(data_layer, "make_batches", None)
    batches = None if together is None else together(plan, training)
    if batches is not None:
        return batches
    make = getattr(data_layer, "make_training_batch", None) if training else None
    return ((number, make(examples, epoch) if make else data_layer.make_batch(examples))
            for number, examples, epoch in plan)


def _fill(data_layer: Any, plan: Iterator[Wanted], training: bool, out: queue.Queue,
          stop: threading.Event) -> None:
    """Makes batches until the plan ends, an error occurs, or ``stop`` is set; runs in the background thread."""
    end = _End()
    try:
        for item in made_batches(data_layer, plan, training):
            if not _put(out, item, stop):
                return
    except BaseException as error:  # noqa: B036 - re-raised in the consumer
        end = _End(error)
    _put(out, end, stop)


def _put(out: queue.Queue, item: Any, stop: threading.Event) -> bool:
    """Puts an item into the queue as soon as there is room; returns False if ``stop`` is set before that."""
    while not stop.is_set():
        try:
            out.put(item, timeout=0.2)
            return True
        except queue.Full:
            continue
    return False
