"""Batches on disk: written whole, read without executing anything."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.training.replay import flatten, read_batch, unflatten, write_batch
from open_seq2seq.utils.errors import UserError

BATCH = {"source_tensors": [np.arange(6.0).reshape(2, 3), np.array([3, 2], np.int32)], "ids": np.array([7, 9]),
         "more": {"names": np.array(["a", "béd"], object)}}


def test_a_batch_comes_back(tmp_path):
    write_batch(tmp_path / "divergence" / "step-3", BATCH, {"step": 3}, "base_model: X\n")
    batch, event = read_batch(tmp_path / "divergence" / "step-3")
    assert event == {"step": 3}
    assert list(batch) == list(BATCH) and isinstance(batch["source_tensors"], list)
    for path, array in flatten(BATCH).items():
        read = flatten(batch)[path]
        np.testing.assert_array_equal(read, array)
        assert read.dtype == array.dtype or array.dtype == object
    assert [p.name for p in (tmp_path / "divergence").iterdir()] == ["step-3"]


def test_an_older_batch_of_that_step_is_replaced(tmp_path):
    for number in (1, 2):
        write_batch(tmp_path / "step-3", BATCH, {"number": number}, "")
    assert read_batch(tmp_path / "step-3")[1] == {"number": 2}


def test_ten_parts_keep_their_order():
    parts = {"source_tensors": [np.array(i) for i in range(12)]}
    assert [int(a) for a in unflatten(flatten(parts))["source_tensors"]] == list(range(12))


def test_nothing_is_unpickled(tmp_path):
    write_batch(tmp_path / "step-3", BATCH, {}, "")
    np.savez(tmp_path / "step-3" / "batch.npz", ids=np.array([{"evil": 1}], object))
    with pytest.raises(UserError, match="holds no batch to replay"):
        read_batch(tmp_path / "step-3")
    with pytest.raises(UserError, match="step-9"):
        read_batch(tmp_path / "step-9")
