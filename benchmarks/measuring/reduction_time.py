"""Times reductions of a model's gradients, and of single tensors. All ranks must call these functions."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from benchmarks.measuring.cluster_model import Timing


class Reductions(NamedTuple):
    """Measured reductions of a model's gradients, all treated as dense.

    Attributes:
      groups: size in bytes of each group of gradients.
      seconds: durations, in seconds, of the reduction of all groups.
      raw: durations, in seconds, of the reduction of one tensor of the same total size.
      idle: fraction of a core that an idle rank uses.
    """

    groups: list[int]
    seconds: list[float]
    raw: list[float]
    idle: float


def time_reductions(trainer: Any, repetitions: int) -> Reductions:
    """Times the reduction of an update's gradients and one raw ``hvd.grouped_allreduce``, alternately."""
    import horovod.tensorflow as hvd

    from open_seq2seq.runners.horovod.reduction import groups

    gradients = {name: tf.random.stateless_normal(v.shape, [1, 2]) for name, v in trainer.trainable.items()}
    sizes = {name: 4 * int(g.shape.num_elements() or 0) for name, g in gradients.items()}
    flat = tf.random.stateless_normal([sum(sizes.values()) // 4], [1, 2])
    ways = [_function(lambda: list(trainer.runner.reduce(gradients, "timed").values())),
            _function(lambda: hvd.grouped_allreduce([flat], op=hvd.Sum, name="raw"))]
    pairs = [[_time(way, trainer) for way in ways] for _ in range(repetitions + 1)][1:]  # the first pair traces
    start, busy = time.perf_counter(), time.process_time()
    time.sleep(1.0)
    idle = (time.process_time() - busy) / (time.perf_counter() - start)
    return Reductions([sum(sizes[name] for name in group) for group in groups(gradients)],
                      [ours for ours, _ in pairs], [raw for _, raw in pairs], idle)


def time_sizes(trainer: Any, sizes: Sequence[int], repetitions: int) -> list[Timing]:
    """Returns the median duration of a reduction for each size in bytes."""
    timings = []
    for size in sizes:
        tensor = tf.ones([max(size // 4, 1)])
        way = _function(functools.partial(_allreduce, tensor, f"size.{size}"))
        timings.append(Timing(trainer.runner.world_size, size,
                              statistics.median([_time(way, trainer) for _ in range(repetitions + 1)][1:])))
    return timings


def _allreduce(tensor: tf.Tensor, name: str) -> list[tf.Tensor]:
    import horovod.tensorflow as hvd

    return [hvd.allreduce(tensor, op=hvd.Sum, name=name)]


def _function(reduce: Callable[[], list[tf.Tensor]]) -> Callable[[], tf.Tensor]:
    """Returns a compiled function that calls ``reduce`` and returns one element of each result.

    Reading these elements waits for all reductions.
    """
    return tf.function(lambda: tf.stack([tf.reshape(t, [-1])[0] for t in reduce()]), autograph=False)


def _time(way: Callable[[], tf.Tensor], trainer: Any) -> float:
    bool(trainer.runner.agree(tf.constant(True)))  # a barrier: all ranks start together
    start = time.perf_counter()
    way().numpy()
    return time.perf_counter() - start
