"""Fingerprints of files: what they tell apart, and what they do not mind."""

from __future__ import annotations

import os

import numpy as np
import pytest

from open_seq2seq.data import fingerprints
from open_seq2seq.data.fingerprints import digest_of_array, fingerprint
from tests.file_times import keeping_mtime


@pytest.fixture(params=[1 << 20, 1000], ids=["whole", "samples"])
def path(request, tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprints, "WHOLE_BELOW", request.param)
    monkeypatch.setattr(fingerprints, "_SAMPLE_BYTES", 100)
    (tmp_path / "text").write_bytes(np.random.default_rng(0).integers(0, 256, 6000, np.uint8).tobytes())
    return tmp_path / "text"


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b[3000:] + b[:3000],
                                    lambda b: b"x" + b[1:], lambda b: b[:-1] + b"x"])
def test_other_content_is_told(path, change):
    before = fingerprint(str(path))
    with keeping_mtime(path):
        path.write_bytes(change(path.read_bytes()))
    assert not before.is_current and fingerprint(str(path)).sha256 != before.sha256


def test_touched_or_copied_it_is_the_same(path):
    before = fingerprint(str(path))
    os.utime(path, (5, 5))
    assert before.is_current and fingerprint(str(path)).sha256 == before.sha256
    path.write_bytes(path.read_bytes())
    assert before.is_current


@pytest.mark.parametrize("make", [lambda path: None, os.mkfifo, os.mkdir], ids=["nothing", "a pipe", "a folder"])
def test_what_is_no_file_has_none(tmp_path, make):
    make(tmp_path / "odd")
    assert fingerprint(str(tmp_path / "odd")) is None


def test_a_file_that_is_gone_is_not_current(path):
    before = fingerprint(str(path))
    path.unlink()
    assert not before.is_current


def test_digests_of_arrays(monkeypatch):
    monkeypatch.setattr(fingerprints, "_ROWS_AT_ONCE", 3)
    array = np.arange(20).reshape(10, 2)
    same = (array, array.astype(np.int32), np.asfortranarray(array))
    assert len({digest_of_array(one) for one in same}) == 1
    assert len({digest_of_array(other) for other in (array, array[::-1], array[:9], array.reshape(20))}) == 4
