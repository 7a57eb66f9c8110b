"""Batches on disk: written whole, read without executing anything."""

from __future__ import annotations

import os

import numpy as np
import pytest

from open_seq2seq.training.loop.kept_batch import check_event, flatten, read_batch, unflatten, write_batch
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


def test_an_older_batch_of_that_step_stays(tmp_path):
    folders = [write_batch(tmp_path / "step-3", BATCH, {"number": number}, "") for number in (1, 2)]
    assert folders == [tmp_path / "step-3", tmp_path / "step-3-2"]
    assert [read_batch(folder)[1] for folder in folders] == [{"number": 1}, {"number": 2}]


@pytest.mark.parametrize("way", ["link", "file"])
def test_a_batch_is_written_nowhere_else(tmp_path, way):
    (tmp_path / "victim").mkdir()
    if way == "link":
        (tmp_path / "divergence").symlink_to(tmp_path / "victim")
    else:
        (tmp_path / "divergence").write_text("mine")
    with pytest.raises(OSError):
        write_batch(tmp_path / "divergence/step-3", BATCH, {}, "")
    assert not list((tmp_path / "victim").iterdir())


def test_ten_parts_keep_their_order():
    parts = {"source_tensors": [np.array(i) for i in range(12)]}
    assert [int(a) for a in unflatten(flatten(parts))["source_tensors"]] == list(range(12))


@pytest.mark.parametrize("damage", ["a pipe", "a link", "junk", "no file of arrays", "deep names", "a deep event"])
def test_a_batch_of_somebody_else_s(tmp_path, damage):
    folder = tmp_path / "step-3"
    write_batch(folder, BATCH, {}, "")
    arrays, event = folder / "batch.npz", folder / "event.json"
    if damage == "a deep event":
        event.write_text("[" * 100_000)
    elif damage == "deep names":
        np.savez(arrays, **{"a/" * 5000: np.zeros(1)})
    elif damage == "a link":
        (tmp_path / "elsewhere").write_bytes(arrays.read_bytes())
        arrays.unlink()
        arrays.symlink_to(tmp_path / "elsewhere")
    elif damage == "a pipe":
        arrays.unlink()
        os.mkfifo(arrays)
    else:
        arrays.write_bytes(b"PK\x03\x04junk" if damage == "junk" else b"text")
    with pytest.raises(UserError, match="has no batch to replay"):
        read_batch(folder)


@pytest.mark.parametrize("event", [[1, 2], {}, {"step": "3"}])
def test_an_event_has_what_a_replay_needs(tmp_path, event):
    with pytest.raises(UserError, match="the entry 'step' is missing or has the wrong type"):
        check_event(tmp_path, event)


def test_nothing_is_unpickled(tmp_path):
    write_batch(tmp_path / "step-3", BATCH, {}, "")
    np.savez(tmp_path / "step-3" / "batch.npz", ids=np.array([{"evil": 1}], object))
    with pytest.raises(UserError, match="has no batch to replay"):
        read_batch(tmp_path / "step-3")
    with pytest.raises(UserError, match="step-9"):
        read_batch(tmp_path / "step-9")
