"""Padding a batch to one of a few shapes changes no example."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.batching import BatchLoader, BatchStream
from open_seq2seq.data.fields import Field
from open_seq2seq.data.static_shapes import (
    EMPTY_ID,
    StaticBatches,
    StaticShape,
    arrange,
    describe_shapes,
    pad_batch,
    with_empty_row,
    without_empty_rows,
)
from open_seq2seq.utils.errors import ConfigError


class Layer:
    """Sequences of features with targets of their own length, as in speech recognition."""

    params = {"prefetch_buffer_size": 2}

    def __init__(self, count: int = 60) -> None:
        rng = np.random.default_rng(0)
        self.lengths = np.stack([rng.integers(5, 40, count), rng.integers(1, 9, count)], 1)

    @property
    def fields(self):
        lengths = Field(tf.int32, (None,))
        return {"source_tensors": [Field(tf.float32, (None, None, 3), 1, 1), lengths],
                "target_tensors": [Field(tf.int32, (None, None), 1, 1), lengths],
                "speaker": lengths, "ids": Field(tf.int64, (None,))}

    def make_batch(self, examples):
        source, target = self.lengths[examples].T
        return {"source_tensors": [np.ones([len(examples), source.max(), 3], np.float32), source.astype(np.int32)],
                "target_tensors": [np.ones([len(examples), target.max()], np.int32), target.astype(np.int32)],
                "speaker": np.ones(len(examples), np.int32), "ids": np.asarray(examples, np.int64)}


def test_a_batch_is_padded_in_time_and_by_empty_rows():
    before = Layer().make_batch(np.array([3, 1]))
    after = pad_batch(before, StaticShape(5, (50, 10)), Layer().fields)
    assert [a.shape for a in after["source_tensors"]] == [(5, 50, 3), (5,)]
    assert [a.shape for a in after["target_tensors"]] == [(5, 10), (5,)]
    assert after["ids"].tolist() == [3, 1, *[EMPTY_ID] * 3] and after["ids"].dtype == np.int64
    assert after["speaker"].tolist() == [1, 1, 0, 0, 0]
    for side in ("source_tensors", "target_tensors"):
        for old, new in zip(before[side], after[side], strict=True):
            assert new.dtype == old.dtype and new.sum() == old.sum()
            np.testing.assert_array_equal(new[tuple(slice(n) for n in old.shape)], old)


def test_sides_without_time_need_no_edge():
    batch = {"source_tensors": [np.ones([2, 7], np.int32), np.array([7, 4], np.int32)],
             "target_tensors": [np.array([1, 2])], "ids": np.arange(2)}
    fields = {"source_tensors": [Field(tf.int32, (None, None), 1, 1), Field(tf.int32, (None,))],
              "target_tensors": [Field(tf.int64, (None,))], "ids": Field(tf.int64, (None,))}
    padded = pad_batch(batch, StaticShape(3, (9,)), fields)
    assert padded["source_tensors"][0].shape == (3, 9) and padded["target_tensors"][0].tolist() == [1, 2, 0]


def test_a_batch_of_nothing_is_an_empty_row():
    nothing = {name: [array[:0] for array in value] if isinstance(value, list) else value[:0]
               for name, value in Layer().make_batch(np.array([3, 1])).items()}
    nothing["target_tensors"][0] = nothing["target_tensors"][0][:, :0]
    batch = with_empty_row(nothing, Layer().fields)
    assert [a.shape for a in batch["source_tensors"]] == [(1, nothing["source_tensors"][0].shape[1], 3), (1,)]
    assert [a.shape for a in batch["target_tensors"]] == [(1, 1), (1,)]
    assert batch["ids"].tolist() == [EMPTY_ID]
    assert all(not np.any(array) for side in ("source_tensors", "target_tensors") for array in batch[side])


def test_a_run_meets_no_more_shapes_than_allowed():
    layer = Layer()
    stream = BatchStream(layer.lengths, batch_size=8, max_shapes=3, seed=1)
    seen, ids = set(), []
    batches = StaticBatches(layer, stream.shapes)
    with contextlib.closing(BatchLoader(batches, stream.by_rank()[0], training=True)) as loader:
        assert loader._queue.maxsize == 2
        for _ in range(2 * stream.micro_batches_per_epoch):
            batch = next(loader)
            seen.add((batch["source_tensors"][0].shape, batch["target_tensors"][0].shape, batch["ids"].shape))
            ids += [int(i) for i in batch["ids"] if i != EMPTY_ID]
    assert len(seen) <= 3 and sorted(ids) == sorted([*range(60)] * 2)


def test_lengths_that_are_not_the_batches_are_named():
    shapes = [StaticShape(8, (20, 10))]
    with pytest.raises(ConfigError, match=r"cannot be used with Layer: according to Layer.lengths, .*\(20, 10\)"):
        StaticBatches(Layer(), shapes).make_batch(np.arange(8))
    with pytest.raises(ConfigError, match="needs a column"):
        StaticBatches(Layer(), [StaticShape(8, (50,))]).make_batch(np.arange(8))


def test_the_description_adds_up():
    shapes = [StaticShape(10, (4, 4)), StaticShape(5, (8, 8))]
    lines = describe_shapes(shapes, arrange([20, 5], shapes), positions=180)
    assert lines[0] == "XLA buckets: 2 shapes, 3 batches per epoch, 25.0% of positions are padding"
    assert lines[1].split() == "10 examples × (4 + 4): 2 batches, 66.7% of positions".split()


def test_empty_rows_are_taken_out_of_a_batch_and_of_its_outputs():
    batch = {"source_tensors": [np.arange(6).reshape(3, 2), np.array([2, 0, 1])], "target_tensors": [],
             "ids": np.array([4, -1, 7]), "rate": 8000}
    outputs = [np.arange(12).reshape(3, 2, 2), np.array(0.5), np.arange(5)]
    held, kept = without_empty_rows(batch, outputs)
    assert held["ids"].tolist() == [4, 7] and held["rate"] == 8000 and held["target_tensors"] == []
    assert [array.tolist() for array in held["source_tensors"]] == [[[0, 1], [4, 5]], [2, 1]]
    assert kept[0].tolist() == [[[0, 1], [2, 3]], [[8, 9], [10, 11]]] and kept[1] == 0.5 and len(kept[2]) == 5
    whole = {**batch, "ids": np.array([4, 5, 7])}
    assert without_empty_rows(whole, outputs) == (whole, outputs)
    named = {**batch, "ids": np.array(["a", "b", "c"])}
    assert without_empty_rows(named, outputs)[0] is named
