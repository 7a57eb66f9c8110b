"""Batches made ahead in a thread."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import time

import numpy as np
import pytest

from open_seq2seq.data.batch_loader import LoaderGroup
from open_seq2seq.data.batching import BatchLoader, BatchStream, evaluation_batches


class CountingLayer:
    """Makes batches of numbers, and counts them."""

    num_examples, costs = 30, None

    def __init__(self, fail_at: int | None = None, seconds: float = 0.0, prefetch: int | None = None,
                 batch_budget: int = 4) -> None:
        self.params = {"length_buckets": True, "prefetch_buffer_size": prefetch}
        self.batch_budget = batch_budget
        self.made, self.fail_at, self.seconds = 0, fail_at, seconds

    @property
    def lengths(self) -> np.ndarray:
        return np.arange(1, self.num_examples + 1)

    def make_batch(self, examples):
        self.made += 1
        time.sleep(self.seconds)
        if self.made == self.fail_at:
            raise OSError("the disk is gone")
        return {"ids": np.asarray(examples, np.int64)}


def stream(**kwargs) -> BatchStream:
    return BatchStream(CountingLayer().lengths, batch_size=4, seed=1, **kwargs)


def plan():
    return stream().by_rank()[0]


def test_no_more_is_made_ahead_than_asked_for():
    layer = CountingLayer(prefetch=3)

    def count() -> int:
        end = time.monotonic() + 60
        while layer.made < 4 + taken and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)
        return layer.made

    with contextlib.closing(BatchLoader(layer, plan())) as loader:
        for taken in range(2):
            assert count() == 4 + taken  # three in the queue, one in hand
            next(loader)


@pytest.mark.parametrize("replicas", [1, 2])
def test_each_replica_s_batches_are_those_of_their_epoch(replicas):
    class Layer(CountingLayer):
        def make_training_batch(self, examples, epoch):
            return {"ids": np.asarray(examples), "epoch": epoch}

    source = stream(world_size=replicas, replicas=replicas)
    with contextlib.closing(LoaderGroup(Layer(), source.by_rank(4 * replicas))) as loader:
        for index in range(4 * replicas, 24):
            batch = next(loader)
            assert batch["epoch"] == index // source.micro_batches_per_epoch
            np.testing.assert_array_equal(batch["ids"], source.examples(index))


def test_an_error_arrives_where_it_happened_and_stays():
    loader = BatchLoader(CountingLayer(fail_at=3), plan())
    next(loader), next(loader)
    for _ in range(2):
        with pytest.raises(OSError, match="the disk is gone"):
            next(loader)


def test_waiting_is_measured():
    with contextlib.closing(BatchLoader(CountingLayer(seconds=0.3), plan())) as loader:
        began = time.perf_counter()
        next(loader), next(loader)
        # The thread may have had a start.
        assert 0.1 < loader.wait_seconds <= time.perf_counter() - began


def test_close_ends_the_thread_and_the_iteration():
    loader = BatchLoader(CountingLayer(prefetch=1), plan())
    next(loader)
    loader.close()
    loader.close()
    assert not loader._thread.is_alive()
    with pytest.raises(StopIteration):
        next(loader)


def test_a_forgotten_loader_ends_its_thread():
    loader = BatchLoader(CountingLayer(prefetch=1), plan())
    thread = loader._thread
    del loader
    gc.collect()
    thread.join(timeout=60)
    assert not thread.is_alive()


@pytest.mark.parametrize("world", [1, 2, 3, 10])
@pytest.mark.parametrize("batch_size", [1, 4, 7, 100])
def test_evaluation_gives_every_example_once(world, batch_size):
    ids: list[int] = []
    for rank in range(world):
        batches = evaluation_batches(CountingLayer(batch_budget=batch_size), world_size=world, rank=rank)
        made = [batch["ids"] for batch in batches]
        assert len(made) == len(batches)
        ids += [int(i) for some in made for i in some]
    assert sorted(ids) == list(range(30))


def test_an_open_loader_does_not_hold_up_the_end_of_the_program():
    program = """
import numpy as np
from open_seq2seq.data.batching import BatchLoader, BatchStream
class Layer:
    def make_batch(self, examples): return {"ids": examples}
loader = BatchLoader(Layer(), BatchStream(np.ones(100, int), batch_size=3).by_rank()[0])
next(loader)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=300, check=False).returncode == 0
