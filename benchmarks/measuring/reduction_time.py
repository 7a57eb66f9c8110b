"""Times reductions of a model's gradients, and of single tensors; prints the results as a line of JSON.

usage: mpiexec -np N python -m benchmarks.measuring.reduction_time REPETITIONS --config_file=CONFIG [OVERRIDES ...]
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import horovod.tensorflow as hvd  # type: ignore[import-not-found]
import tensorflow as tf

from benchmarks.measuring.programs import timed_pass
from benchmarks.measuring.settings import make_trainer
from open_seq2seq.runners.horovod.runner import groups

_LARGE = 2 ** 26  # bytes


def time_reductions(trainer: Any, repetitions: int) -> dict[str, Any]:
    """Times reductions of an update's gradients, all treated as dense; returns the fields of ``Reductions`` by name."""
    gradients = {name: tf.random.stateless_normal(v.shape, [1, 2]) for name, v in trainer.trainable.items()}
    sizes = {name: 4 * int(g.shape.num_elements() or 0) for name, g in gradients.items()}
    flat = tf.random.stateless_normal([sum(sizes.values()) // 4], [1, 2])
    ways = [_function(lambda: list(trainer.runner.reduce(gradients, "timed").values())),
            _function(lambda: hvd.grouped_allreduce([flat], op=hvd.Sum, name="raw"))]
    pairs = [[_time(way, trainer) for way in ways] for _ in range(repetitions + 1)][1:]  # the first pair traces
    start, busy = time.perf_counter(), time.process_time()
    time.sleep(1.0)
    idle = (time.process_time() - busy) / (time.perf_counter() - start)
    return {"groups": [sum(sizes[name] for name in group) for group in groups(gradients)],
            "seconds": [ours for ours, _ in pairs], "raw": [raw for _, raw in pairs], "idle": idle,
            "small": _size_seconds(trainer, 4, repetitions), "large": _size_seconds(trainer, _LARGE, repetitions),
            "large_bytes": _LARGE}


def _size_seconds(trainer: Any, size: int, repetitions: int) -> float:
    """Returns the median seconds of a reduction of ``size`` bytes."""
    tensor = tf.ones([size // 4])
    way = _function(lambda: [hvd.allreduce(tensor, op=hvd.Sum, name=f"size.{size}")])
    return statistics.median([_time(way, trainer) for _ in range(repetitions + 1)][1:])


def _function(reduce: Callable[[], list[tf.Tensor]]) -> Callable[[], tf.Tensor]:
    """Returns a compiled function that calls ``reduce`` and returns one element of each result.

    Reading these elements waits for all reductions.
    """
    return tf.function(lambda: tf.stack([tf.reshape(t, [-1])[0] for t in reduce()]), autograph=False)


def _time(way: Callable[[], tf.Tensor], trainer: Any) -> float:
    bool(trainer.runner.agree(tf.constant(True)))  # a barrier: all ranks start together
    return timed_pass(way)()


def main() -> None:
    """Measures on all ranks, and prints on the first."""
    repetitions, config, *overrides = sys.argv[1:]
    trainer = make_trainer(config.removeprefix("--config_file="), overrides)
    reductions = time_reductions(trainer, int(repetitions))
    if trainer.runner.is_chief:
        print(json.dumps(reductions))


if __name__ == "__main__":
    main()
