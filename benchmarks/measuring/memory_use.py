"""Measures peak memory for different batch sizes, each in a separate process."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.measuring.processes import Failure, call
from benchmarks.measuring.settings import make_trainer

UPDATES = 3


class Trial(NamedTuple):
    """The measurements for one batch size.

    Attributes:
      batch_size: batch size in the config's unit.
      objects: tokens, frames or images in the batch, without padding.
      peak_megabytes: peak memory of the GPU if there is one, else of the process.
      seconds: duration of the fastest update.
    """

    batch_size: int
    objects: int
    peak_megabytes: float
    seconds: float


def peak_megabytes() -> float:
    """Returns the peak memory in MB of the first GPU if there is one, else of this process."""
    import tensorflow as tf

    if tf.config.list_logical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def try_size(config_file: str, overrides: Sequence[str], batch_size: int) -> Trial:
    """Makes some updates on the batch that contains the longest example; returns the measurements."""
    trainer = make_trainer(config_file, [*overrides, f"--batch_size_per_gpu={batch_size}"])
    _, examples = trainer.describe_epoch()
    seconds = []
    for _ in range(UPDATES):
        start = time.perf_counter()
        trainer.try_batch(examples)
        trainer.optimizer.updates.numpy()  # waits for the device
        seconds.append(time.perf_counter() - start)
    objects = trainer.model.num_objects(trainer.model.data_layer.make_batch(examples))
    return Trial(batch_size, objects, peak_megabytes(), min(seconds))


def run_trial(config_file: str, overrides: Sequence[str], batch_size: int) -> Trial | None:
    """Returns the measurements for a batch size, or None if it ran out of memory.

    Raises:
      Failure: the trial failed for another reason, such as too few examples for a batch.
    """
    try:
        return call(try_size, config_file, list(overrides), batch_size)
    except Failure as failure:
        if failure.out_of_memory:
            return None
        raise


def search(config_file: str, overrides: Sequence[str], limit_mb: float | None, start: int,
           halvings: int) -> Iterator[tuple[Trial, bool]]:
    """Searches for the largest batch size that fits: doubles the size until it does not fit, then bisects.

    Args:
      config_file: path of the config.
      overrides: overrides of the config, including the dtype.
      limit_mb: memory limit in MB; None for the device's memory.
      start: first batch size, in the config's unit.
      halvings: number of bisection steps.

    Yields:
      Each trial that did not run out of memory, and whether it fits the limit.

    Raises:
      Failure: a trial failed for a reason other than lack of memory. If there are too few examples for a larger batch,
        the search ends without an error, provided that a smaller batch has fitted.
    """
    size, low, high = start, 0, 0
    while halvings >= 0:
        try:
            trial = run_trial(config_file, overrides, size)
        except Failure as failure:
            if not (failure.mistake and low):
                raise
            print(f"No larger batch: {failure}", file=sys.stderr)  # there are too few examples; memory is not exhausted
            return
        fits = trial is not None and (limit_mb is None or trial.peak_megabytes <= limit_mb)
        if trial is not None:
            yield trial, fits
        low, high = (size, high) if fits else (low, size)
        halvings -= 1 if high else 0
        size = (low + high) // 2 if high else 2 * size
        if not low or size == low:
            return
