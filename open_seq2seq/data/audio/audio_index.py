"""Index of the headers of recordings, cached on disk for large data sets."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from open_seq2seq.data.audio.audio_files import AudioError, AudioInfo, read_info
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.progress import tracked
from open_seq2seq.utils.sealed import read_sealed, sealed

_REMEMBERED_FROM = 1000
"""Minimum number of recordings for a cache; reading the headers of fewer takes less than a second."""
_STAMP = 3
"""Number of columns by which a changed file is detected: size in bytes, mtime and ctime in ns."""
_COLUMNS = _STAMP + 3
"""Total number of columns: the ``_STAMP`` columns, then samples, rate and channels."""
_VERSION = "2"
"""Part of the names of cache files: lengths that another version read from the same recordings are not used."""


class AudioIndex:
    """Headers of the recordings of a data set.

    Args:
      paths: the recordings.
      folder: folder for the cache file of a large data set; None for no cache, as in inference. Recordings whose size,
        mtime or ctime has changed are read again. A folder that cannot be written is not an error.
      threads: number of files to read in parallel.

    Attributes:
      samples: number of samples of each file at the file's own rate ``[files]``; 0 if the file cannot be read.
      rates: sampling rate of each file in Hz ``[files]``.
      channels: number of channels of each file ``[files]``.
      errors: dict of file index → error, for files that cannot be read.
    """

    def __init__(self, paths: Sequence[str], folder: str | None, threads: int) -> None:
        self.errors: dict[int, AudioError] = {}
        folder = folder if len(paths) >= _REMEMBERED_FROM else None
        known = None if folder is None else self._remembered(paths, folder)
        table = np.zeros([len(paths), _COLUMNS], np.int64)

        def look(number: int) -> None:
            stamp = _stamp(paths[number])
            if known is not None and stamp is not None and tuple(known[number, :_STAMP]) == stamp \
                    and known[number, _STAMP + 1]:
                table[number] = known[number]
                return
            try:
                info = read_info(paths[number])
            except AudioError as error:
                self.errors[number] = error
                return
            table[number] = (*(stamp or (0,) * _STAMP), info.samples, info.rate, info.channels)

        numbers: dict[str, int] = {}  # a recording may occur many times, if examples are segments of it
        for number, path in enumerate(paths):
            numbers.setdefault(path, number)
        with ThreadPoolExecutor(threads, "audio-index") as pool:
            for _ in tracked(pool.map(look, numbers.values(), chunksize=64), len(numbers), "Reading audio headers"):
                pass
        first = np.asarray([numbers[path] for path in paths], np.int64)
        table = table[first]
        self.errors = {number: self.errors[one] for number, one in enumerate(first.tolist()) if one in self.errors}
        self.samples, self.rates, self.channels = table[:, _STAMP:].T
        if folder is not None and (known is None or not np.array_equal(table, known)):
            self._remember(paths, folder, table)

    def __len__(self) -> int:
        return len(self.samples)

    def info(self, number: int) -> AudioInfo:
        """Returns the header of the file with this index."""
        return AudioInfo(int(self.samples[number]), int(self.rates[number]), int(self.channels[number]))

    @staticmethod
    def _file(paths: Sequence[str], folder: str) -> str:
        digest = hashlib.sha256("\n".join([_VERSION, *paths]).encode("utf-8", "surrogatepass")).hexdigest()
        return os.path.join(folder, f"lengths-{digest[:16]}.npy")

    def _remembered(self, paths: Sequence[str], folder: str) -> np.ndarray | None:
        path = self._file(paths, folder)
        if not os.path.lexists(path):
            return None
        with contextlib.suppress(OSError, ValueError, EOFError, MemoryError):
            table = np.load(io.BytesIO(read_sealed(path) or b""), allow_pickle=False)
            if table.shape == (len(paths), _COLUMNS) and table.dtype == np.int64 and np.all(table >= 0):
                return table
        deco_print(f"The cache file {path} is damaged: reading the headers of {len(paths):,} recordings again.")
        return None

    def _remember(self, paths: Sequence[str], folder: str, table: np.ndarray) -> None:
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            _write_array(self._file(paths, folder), table)


def _write_array(path: str, array: np.ndarray) -> None:
    """Writes an array to a ``.npy`` file with a checksum, which appears under its name only once complete.

    Raises:
      OSError: the file cannot be written.
    """
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    with disk.writing(path, disk.always) as file:
        file.write(sealed(content.getvalue()))


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # the file does not exist, or its name is invalid
        return None
    latest = np.iinfo(np.int64).max  # int64 represents times until 2262; a wrong clock can produce later ones
    return status.st_size, min(status.st_mtime_ns, latest), min(status.st_ctime_ns, latest)
