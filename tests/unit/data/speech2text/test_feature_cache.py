from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from open_seq2seq.data.speech2text.feature_cache import FORMATS, FeatureCache


@pytest.fixture
def recording(tmp_path) -> str:
    path = tmp_path / "a.wav"
    path.write_bytes(b"sound")
    return str(path)


@pytest.fixture
def folder(tmp_path) -> str:
    return str(tmp_path / "cache")


VALUES = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.mark.parametrize("file_format", FORMATS)
def test_what_was_stored_is_loaded(recording, folder, file_format):
    cache = FeatureCache(folder, {"a": 1}, file_format)
    assert cache.load(recording) is None
    cache.store(recording, VALUES)
    loaded = FeatureCache(folder, {"a": 1}, file_format).load(recording)
    assert np.array_equal(loaded, VALUES)
    assert loaded.dtype == np.float32
    assert not [path for path in Path(folder).rglob("*") if path.suffix == ".tmp"]


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x93NUMPY"])
def test_a_broken_file_is_nothing(recording, folder, file_format, content):
    cache = FeatureCache(folder, {}, file_format)
    cache.store(recording, VALUES)
    Path(cache.path_of(recording)).write_bytes(content)
    assert cache.load(recording) is None
    cache.store(recording, VALUES)
    assert cache.load(recording) is not None


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_damaged_file_is_nothing_wherever_the_damage_is(recording, folder, file_format):
    cache = FeatureCache(folder, {}, file_format)
    cache.store(recording, VALUES)
    path = Path(cache.path_of(recording))
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1:])
        assert cache.load(recording) is None
    for length in (0, 3, 4, 5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert cache.load(recording) is None
    path.write_bytes(whole + b"x")
    assert cache.load(recording) is None
    path.write_bytes(whole)
    assert np.array_equal(cache.load(recording), VALUES)


def test_other_programs_can_read_the_files(recording, folder):
    paths = {}
    for file_format in FORMATS:
        cache = FeatureCache(folder, {}, file_format)
        cache.store(recording, VALUES)
        paths[file_format] = cache.path_of(recording)
    assert np.array_equal(np.load(paths["npy"]), VALUES)
    with np.load(paths["npz"]) as arrays, h5py.File(paths["hdf5"]) as file:
        assert np.array_equal(arrays["features"], VALUES)
        assert np.array_equal(file["features"], VALUES)


def test_other_parameters_and_changed_recordings_are_not_found(recording, folder):
    FeatureCache(folder, {"a": 1}, "npy").store(recording, VALUES)
    assert FeatureCache(folder, {"a": 2}, "npy").load(recording) is None
    Path(recording).write_bytes(b"other")
    os.utime(recording, ns=(1, 1))
    assert FeatureCache(folder, {"a": 1}, "npy").load(recording) is None


def test_regenerating_forgets_what_was_there_before_this_process(recording, folder):
    FeatureCache(folder, {}, "npy").store(recording, VALUES)
    cache = FeatureCache(folder, {}, "npy", regenerate=True)
    assert cache.load(recording) is None
    cache.store(recording, VALUES + 1)
    assert np.array_equal(cache.load(recording), VALUES + 1)


def test_a_folder_that_takes_nothing_is_said_once(recording, tmp_path, capsys):
    (tmp_path / "file").write_bytes(b"")
    cache = FeatureCache(str(tmp_path / "file"), {}, "npy")
    cache.store(recording, VALUES)
    cache.store(recording, VALUES)
    assert capsys.readouterr().out.count("cannot be cached") == 1


STORE_OFTEN = """
import sys
import numpy as np
from open_seq2seq.data.speech2text.feature_cache import FeatureCache

cache = FeatureCache(sys.argv[2], {}, "npy")
for _ in range(100):
    cache.store(sys.argv[1], np.full(2000, int(sys.argv[3])))
    found = cache.load(sys.argv[1])
    assert found is not None and len(set(found.tolist())) == 1
"""


def test_several_processes_share_a_folder(recording, folder):
    processes = [subprocess.Popen([sys.executable, "-c", STORE_OFTEN, recording, folder, value])
                 for value in ("1", "2")]
    assert [process.wait() for process in processes] == [0, 0]
