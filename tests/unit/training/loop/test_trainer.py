"""The position of a run that is resumed."""

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
