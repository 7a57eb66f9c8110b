"""The position of a run that is resumed, and what an update leaves in memory."""

import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from open_seq2seq.training.loop.trainer import Trainer


@pytest.mark.parametrize(("ranks", "step", "micro_batch", "last_step", "shift"), [
    (1, 500, 500, 1000, 0),
    (2, 500, 500, 750, -250),  # half of the run on 1 rank, then 250 of the 500 updates of a run on 2
    (2, 501, 501, 750, -251),
    (1, 250, 500, 750, 250),  # half of the run on 2 ranks, then 500 of the 1000 updates of a run on 1
])
def test_a_schedule_continues_at_the_reached_epoch_on_another_number_of_ranks(ranks, step, micro_batch, last_step,
                                                                              shift):
    trainer: Any = object.__new__(Trainer)
    trainer.offset, trainer._iter_size, trainer.runner = 0, 1, SimpleNamespace(world_size=ranks)
    trainer.model = SimpleNamespace(params={"max_steps": None, "num_epochs": 10})
    trainer._stream = SimpleNamespace(micro_batches_per_epoch=100)
    trainer.early_stopping = SimpleNamespace(rewind=lambda step: None)
    trainer._train_step = SimpleNamespace(batches=tf.Variable(0, dtype=tf.int64), offset=tf.Variable(0, dtype=tf.int64))
    trainer._schedule_shift = tf.Variable(0, dtype=tf.int64)
    trainer.resume(step, micro_batch)
    assert (trainer.micro_batch, trainer.last_step, trainer._schedule_shift.numpy()) == (micro_batch, last_step, shift)


class Count(float):
    """A number of objects, as a device computes it."""


class Batches:
    """A loader of batches of two examples."""

    wait_seconds = 0.0

    def __next__(self):
        return {"ids": [0, 1]}


def test_the_numbers_of_objects_of_several_processes_are_summed_and_not_retained():
    counts = []

    def update(batches, tallies):
        count = Count(2 * tallies["objects"])
        counts.append(weakref.ref(count))
        return {"objects": count, "stop_votes": 0.0}

    trainer: Any = object.__new__(Trainer)
    trainer.runner, trainer._iter_size = SimpleNamespace(num_processes=2, local_replicas=1), 1
    trainer.model = SimpleNamespace(num_objects=lambda batch: 3, data_layer=SimpleNamespace(
        describe_example=str, rate_factor=lambda batch: None))
    trainer.stop, trainer._compilations = SimpleNamespace(requested=False), None
    trainer.divergence = SimpleNamespace(detector=SimpleNamespace(observe=lambda *_: None))
    trainer.step, trainer.waited, trainer._votes, trainer._objects, trainer._last_objects = 0, 0.0, None, 0, 0.0
    trainer._train_step = update
    for _ in range(5):
        trainer._make_step(Batches())
    assert trainer.objects == trainer.objects == 5 * 6
    assert [count() is None for count in counts] == [True] * 4 + [False]
