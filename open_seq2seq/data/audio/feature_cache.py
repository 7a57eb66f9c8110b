"""Cache on disk for features or decoded audio, kept between epochs and runs."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import threading
import zipfile
import zlib
from typing import Any

import numpy as np

from open_seq2seq.data.audio.audio_files import Segment
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.own_files import read_sealed, sealed

FORMATS = ("npy", "npz", "hdf5")
_VERSION = 2
_STAMP_BYTES = 8
"""Number of bytes for the recording's ctime, stored between the array and the checksum.

Programs can set a file's mtime back, but not its ctime.
"""
_HDF5 = threading.Lock()  # HDF5 is not thread-safe


class FeatureCache:
    """Cache with one folder for each set of parameters, which contains one file for each recording.

    The name of a file depends on the recording's path, size and mtime; the name of the folder on the parameters. Files
    appear under their names only once complete, so several processes can share a folder. A file that is damaged, or
    whose recording has a new ctime, is not used; a message is printed only for the first such file.

    Args:
      folder: parent of the folder for these parameters.
      parameters: everything that cached arrays depend on, except the recording.
      file_format: ``npy``, ``npz`` (compressed) or ``hdf5``.
      regenerate: whether to ignore files that this object has not written.
    """

    def __init__(self, folder: str, parameters: dict[str, Any], file_format: str, regenerate: bool = False) -> None:
        text = json.dumps({"version": _VERSION, **parameters}, sort_keys=True, default=repr)
        self.folder = os.path.join(folder, f"features-{hashlib.sha256(text.encode()).hexdigest()[:16]}")
        self._format, self._regenerate = file_format, regenerate
        self._written: set[str] = set()
        self._broken = self._said = False

    def path_of(self, recording: str, segment: Segment | None = None) -> str:
        """Returns the cache file of a recording, or of a segment of it, in its current state.

        Raises:
          OSError: the recording does not exist.
        """
        status = os.stat(recording)
        text = f"{os.path.abspath(recording)}\0{status.st_size}\0{status.st_mtime_ns}"
        text += "" if segment is None else "\0{}\0{}".format(*segment)
        name = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return os.path.join(self.folder, name[:2], f"{name}.{self._format}")

    def load(self, recording: str, segment: Segment | None = None) -> np.ndarray | None:
        """Returns the cached array of a recording, or of a segment of it; None if the cache has no valid one."""
        with contextlib.suppress(OSError):
            path = self.path_of(recording, segment)
            if (not self._regenerate or path in self._written) and os.path.lexists(path):
                array = _read(path, self._format, _stamp(recording))
                if array is None and not self._said:
                    self._said = True
                    deco_print(f"Computing features again: cached files in {self.folder} are damaged, or their "
                               f"recordings have changed (first such file: {os.path.basename(path)}).")
                return array
        return None

    def store(self, recording: str, array: np.ndarray, segment: Segment | None = None) -> None:
        """Stores the array of a recording, or of a segment; at the first error, prints a message and stops storing."""
        if self._broken:
            return
        try:
            path = self.path_of(recording, segment)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            content = sealed(_packed(array, self._format) + _stamp(recording))
            with disk.writing(path, disk.always) as file:
                file.write(content)
            self._written.add(path)
        except OSError as error:
            self._broken = True
            deco_print(f"Features cannot be cached in {self.folder} ({error.strerror or error}): continuing without a "
                       "cache.")


def _stamp(recording: str) -> bytes:
    return os.stat(recording).st_ctime_ns.to_bytes(_STAMP_BYTES, "little")


def _read(path: str, file_format: str, stamp: bytes) -> np.ndarray | None:
    """Returns the array in a file; None if the file is damaged, or the recording's ctime differs from ``stamp``."""
    content = read_sealed(path)
    if content is None or content[-_STAMP_BYTES:] != stamp:
        return None
    try:
        return _unpacked(content[:-_STAMP_BYTES], file_format)
    except (OSError, ValueError, KeyError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return None


def _unpacked(packed: bytes, file_format: str) -> np.ndarray:
    if file_format == "hdf5":
        import h5py

        with _HDF5, h5py.File(io.BytesIO(packed), "r") as file:
            content = file["features"]
            if not isinstance(content, h5py.Dataset) or content.file != file or content.external or content.is_virtual:
                raise ValueError("the values are in another file")
            return content[()]
    content = np.load(io.BytesIO(packed), allow_pickle=False)
    return content if file_format == "npy" else content["features"]


def _packed(array: np.ndarray, file_format: str) -> bytes:
    out = io.BytesIO()
    if file_format == "hdf5":
        import h5py

        with _HDF5, h5py.File(out, "w") as file:
            file.create_dataset("features", data=array)
    elif file_format == "npy":
        np.save(out, array, allow_pickle=False)
    else:
        np.savez_compressed(out, features=array)
    return out.getvalue()
