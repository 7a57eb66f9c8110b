"""An index of the headers of recordings, cached for large sets."""

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
from open_seq2seq.utils.sealed import read_sealed, sealed

_REMEMBERED_FROM = 1000
"""Headers of smaller sets are not cached, since reading them takes less than a second."""
_STAMP = 3
"""Columns that show whether a file has changed: size in bytes, times of change of content and status in ns."""
_COLUMNS = _STAMP + 3
"""Then samples, rate and channels."""


class AudioIndex:
    """Headers of the recordings of a data set.

    Args:
      folder: of the cache for a large set, which has a checksum. Files whose size or time has changed are read again;
        it is no error if the folder cannot be written. None for no cache, as in inference.
      threads: number of files that are opened at the same time.

    Attributes:
      samples: of each file, at its own rate ``[files]``; 0 if it cannot be read.
      rates: samples a second ``[files]``.
      channels: ``[files]``.
      errors: number of a file → its error.
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

        with ThreadPoolExecutor(threads, "audio-index") as pool:
            for _ in pool.map(look, range(len(paths)), chunksize=64):
                pass
        self.samples, self.rates, self.channels = table[:, _STAMP:].T
        if folder is not None and (known is None or not np.array_equal(table, known)):
            self._remember(paths, folder, table)

    def __len__(self) -> int:
        return len(self.samples)

    def info(self, number: int) -> AudioInfo:
        """Returns the contents of a file's header."""
        return AudioInfo(int(self.samples[number]), int(self.rates[number]), int(self.channels[number]))

    @staticmethod
    def _file(paths: Sequence[str], folder: str) -> str:
        digest = hashlib.sha256("\n".join(paths).encode("utf-8", "surrogatepass")).hexdigest()
        return os.path.join(folder, f"lengths-{digest[:16]}.npy")

    def _remembered(self, paths: Sequence[str], folder: str) -> np.ndarray | None:
        path = self._file(paths, folder)
        if not os.path.lexists(path):
            return None
        with contextlib.suppress(OSError, ValueError, EOFError, MemoryError):
            table = np.load(io.BytesIO(read_sealed(path) or b""), allow_pickle=False)
            if table.shape == (len(paths), _COLUMNS) and table.dtype == np.int64 and np.all(table >= 0):
                return table
        deco_print(f"{path} is not as it was written: the headers of {len(paths):,} recordings are read again.")
        return None

    def _remember(self, paths: Sequence[str], folder: str, table: np.ndarray) -> None:
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            _write_array(self._file(paths, folder), table)


def _write_array(path: str, array: np.ndarray) -> None:
    """Writes an array to a sealed ``.npy`` file that gets its name when it is complete.

    Raises:
      OSError: it cannot be written.
    """
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    with disk.writing(path, disk.always) as file:
        file.write(sealed(content.getvalue()))


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # no such file, or a name that none can have
        return None
    latest = np.iinfo(np.int64).max  # ns: in 2262; files of a clock that was off may be of later
    return status.st_size, min(status.st_mtime_ns, latest), min(status.st_ctime_ns, latest)
