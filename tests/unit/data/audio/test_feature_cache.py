from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from open_seq2seq.data.audio import feature_cache
from open_seq2seq.data.audio.feature_cache import FORMATS, FeatureCache
from tests.file_times import keeping_mtime


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
def test_a_damaged_file_is_nothing_wherever_the_damage_is(recording, folder, file_format):
    cache = FeatureCache(folder, {}, file_format)
    cache.store(recording, VALUES)
    path = Path(cache.path_of(recording))
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1:])
        assert cache.load(recording) is None
    for length in (0, 3, 4, 5, 6, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert cache.load(recording) is None
    path.write_bytes(whole + b"x")
    assert cache.load(recording) is None
    cache.store(recording, VALUES)
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
from open_seq2seq.data.audio.feature_cache import FeatureCache

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


def test_a_recording_of_equal_size_and_time_is_another(recording, folder, capsys):
    cache = FeatureCache(folder, {}, "npy")
    cache.store(recording, VALUES)
    with keeping_mtime(recording):
        Path(recording).write_bytes(b"other")
    for _ in range(2):
        assert cache.load(recording) is None
    assert capsys.readouterr().out.count("their recordings have changed") == 1
    cache.store(recording, VALUES)
    assert cache.load(recording) is not None and len(list(Path(folder).rglob("*.npy"))) == 1


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_stands_in_the_place_of_cached_features(recording, folder, make):
    cache = FeatureCache(folder, {}, "npy")
    cache.store(recording, VALUES)
    path = Path(cache.path_of(recording))
    path.unlink()
    make(path)
    assert cache.load(recording) is None


def hdf5_elsewhere(kind: str, place: Path) -> bytes:
    with h5py.File(place / "secret", "w") as file:
        file["features"] = VALUES
    (place / "raw").write_bytes(VALUES.tobytes())
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        if kind == "link":
            file["features"] = h5py.ExternalLink(str(place / "secret"), "features")
        elif kind == "raw":
            file.create_dataset("features", VALUES.shape, VALUES.dtype, external=[(str(place / "raw"), 0, 24)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout(VALUES.shape, VALUES.dtype)
            layout[...] = h5py.VirtualSource(str(place / "secret"), "features", VALUES.shape)
            file.create_virtual_dataset("features", layout)
        elif kind == "huge":
            file.create_dataset("features", (10 ** 9, 10 ** 6), "f4", chunks=(1024, 1024))
        elif kind == "group":
            file.create_group("features")
    return out.getvalue()


@pytest.mark.parametrize("kind", ["link", "raw", "virtual", "huge", "group"])
def test_nothing_but_the_values_of_the_file_itself(recording, folder, tmp_path, kind, monkeypatch):
    """Even a file with a checksum that is right."""
    cache = FeatureCache(folder, {}, "hdf5")
    monkeypatch.setattr(feature_cache, "_packed", lambda array, file_format: hdf5_elsewhere(kind, tmp_path))
    cache.store(recording, VALUES)
    assert cache.load(recording) is None
