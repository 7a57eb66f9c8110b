"""Peak memory by batch size: every size is tried in a process of its own."""

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
    """What one batch size took.

    Attributes:
      batch_size: in the config's unit.
      objects: tokens, frames or images in the batch, padding excluded.
      peak_megabytes: of the process, or of the GPU.
      seconds: of the fastest update.
    """

    batch_size: int
    objects: int
    peak_megabytes: float
    seconds: float


def peak_megabytes() -> float:
    """Returns the peak memory in MB: of the first GPU where there is one, else of this process."""
    import tensorflow as tf

    if tf.config.list_logical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def try_size(config_file: str, overrides: Sequence[str], batch_size: int) -> Trial:
    """Makes some updates from the batch that holds the longest example."""
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
    """Returns what a batch size took, or None when it ran out of memory.

    Raises:
      Failure: something else went wrong, such as too few examples for a batch.
    """
    try:
        return call(try_size, config_file, list(overrides), batch_size)
    except Failure as failure:
        if failure.out_of_memory:
            return None
        raise


def search(config_file: str, overrides: Sequence[str], limit_mb: float | None, start: int,
           halvings: int) -> Iterator[tuple[Trial, bool]]:
    """Yields trials and whether they fit: sizes double until one does not, then the gap is halved.

    Args:
      config_file: the config.
      overrides: of the config, the arithmetic type included.
      limit_mb: MB; None is what the device has.
      start: first batch size, in the config's unit.
      halvings: how often the last gap is halved.

    Raises:
      Failure: the first size is no batch at all.
    """
    size, low, high = start, 0, 0
    while halvings >= 0:
        try:
            trial = run_trial(config_file, overrides, size)
        except Failure as failure:
            if not (failure.mistake and low):
                raise
            print(f"No larger batch: {failure}", file=sys.stderr)  # the data are at their end, memory is not
            return
        fits = trial is not None and (limit_mb is None or trial.peak_megabytes <= limit_mb)
        if trial is not None:
            yield trial, fits
        low, high = (size, high) if fits else (low, size)
        halvings -= 1 if high else 0
        size = (low + high) // 2 if high else 2 * size
        if not low or size == low:
            return
