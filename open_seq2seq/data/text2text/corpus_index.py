"""The index of a tokenised text: a memory-mapped file with one checksum, written again if it does not fit the text.

The file contains the tokens, the start of each sentence in the tokens and of each line in the text, a description in
JSON (the number of tokens and sentences, and the identity of the text), the length of the description, and the CRC32 of
everything before.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import weakref
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from open_seq2seq.data.text2text.vocabulary import rounded_up
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import opened_data
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.own_files import without_links

_VERSION = 3
_NUMBER_BYTES = 8  # of the length of the description, and of the checksum


class UnfitIndexError(Exception):
    """An index that cannot be used, because it is damaged or belongs to another text; the message gives the reason."""


class IndexArrays(NamedTuple):
    """The arrays of an index.

    Attributes:
      tokens: ids of all sentences ``[tokens]``.
      offsets: start of each sentence in ``tokens``, and the end of the last ``[sentences + 1]``.
      line_starts: start of each line in the text in bytes, and the text's size ``[sentences + 1]``.
    """

    tokens: np.ndarray
    offsets: np.ndarray
    line_starts: np.ndarray


def token_type(vocab_size: int) -> type[np.generic]:
    """Returns the dtype in which ids below ``vocab_size`` are stored."""
    return np.uint16 if vocab_size <= 1 << 16 else np.int32


def identity_of(path: str) -> dict[str, Any]:
    """Returns the identity of a text: its size, mtime and ctime, and the version of the index format.

    The ctime is included because, unlike the mtime, it cannot be set by users (with ``touch``, for instance).

    Raises:
      DataError: the text cannot be read.
    """
    with opened_data(path, "The text file") as file:
        status = os.fstat(file.fileno())
    return {"version": _VERSION, "size": status.st_size, "mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns}


def new_digest() -> hashlib.blake2b:
    """Returns an empty digest, to be updated with the bytes of a whole text."""
    return hashlib.blake2b(digest_size=16)


def _digest_of(path: str) -> str:
    with opened_data(path, "The text file") as file:
        return hashlib.file_digest(file, new_digest).hexdigest()  # type: ignore[arg-type]


def finish_index(out: BinaryIO, offsets: np.ndarray, line_starts: np.ndarray, description: dict[str, Any]) -> None:
    """Writes what follows the tokens in an index.

    Args:
      out: the index, open for reading and writing, at the end of the tokens.
      offsets: start of each sentence in the tokens, and the end of the last ``[sentences + 1]``.
      line_starts: start of each line in the text, in bytes ``[sentences]``.
      description: identity and ``digest`` of the text.
    """
    out.write(bytes(-out.tell() % _NUMBER_BYTES))
    out.write(np.concatenate([offsets, line_starts]).astype(np.int64).tobytes())
    footer = json.dumps({**description, "sentences": len(offsets) - 1, "tokens": int(offsets[-1])}).encode()
    out.write(footer + len(footer).to_bytes(_NUMBER_BYTES, "little"))
    out.write(_checksum(out, out.tell()).to_bytes(_NUMBER_BYTES, "little"))


def _checksum(file: BinaryIO, size: int) -> int:
    """Returns the CRC32 of the first bytes of a file, which are read in blocks so that no memory is mapped."""
    file.seek(0)
    check = 0
    while block := file.read(min(size, 1 << 22)):
        check, size = zlib.crc32(block, check), size - len(block)
    return check


def read_index(index: str, path: str, vocab_size: int, thorough: bool = False) -> MappedIndex | None:
    """Verifies the index of a text and maps it into memory; returns None if the file does not exist.

    Args:
      index: path of the index.
      path: path of the text.
      vocab_size: number of valid ids.
      thorough: whether to compare the digest of the whole text even if the text's times have not changed.

    Raises:
      UnfitIndexError: the index is damaged, or belongs to another text.
      DataError: the text cannot be read.
    """
    identity = identity_of(path)
    try:
        file = open(index, "rb", opener=without_links)  # noqa: SIM115 (the mapped index keeps it open)
        mapped = MappedIndex(file, vocab_size)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise UnfitIndexError("it is damaged, or has another version") from error
    differ = {key for key, value in identity.items() if mapped.description.get(key) != value}
    # Copying text and index with their mtimes, or changing permissions, changes only the ctime; then the digest of the
    # text decides.
    if differ - {"ctime_ns"} or (differ or thorough) and mapped.description.get("digest") != _digest_of(path):
        raise UnfitIndexError("the text has changed")
    return mapped


class MappedIndex:
    """A memory-mapped index, verified by its checksum.

    Args:
      file: the index; it is closed when this object is garbage-collected.
      vocab_size: number of valid ids.

    Attributes:
      arrays: the arrays, mapped into memory. Call ``is_unchanged`` before each use, because reading beyond the end of a
        mapped file that was truncated kills the process with a signal.
      description: the description at the end of the index.

    Raises:
      OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError: the file is not an intact index.
    """

    def __init__(self, file: BinaryIO, vocab_size: int) -> None:
        weakref.finalize(self, file.close)
        self._file, self._stamp = file, _stamp(file)
        end = self._stamp[0] - 2 * _NUMBER_BYTES
        tail = os.pread(file.fileno(), 2 * _NUMBER_BYTES, end)
        length, check = (int.from_bytes(part, "little") for part in (tail[:_NUMBER_BYTES], tail[_NUMBER_BYTES:]))
        if check != _checksum(file, end + _NUMBER_BYTES):
            raise ValueError("the checksum differs")
        self.description = json.loads(os.pread(file.fileno(), length, end - length))
        tokens, sentences = self.description["tokens"], self.description["sentences"]
        dtype = np.dtype(token_type(vocab_size))
        data = np.memmap(file, np.uint8, "r").view(np.ndarray)
        numbers = data[rounded_up(tokens * dtype.itemsize):end - length].view(np.int64)
        offsets, starts = np.split(numbers, [sentences + 1])
        starts = np.append(starts, self.description["size"])
        if len(starts) != sentences + 1 or (offsets[0], offsets[-1]) != (0, tokens) or not _rise(offsets, starts):
            raise ValueError("the positions are invalid")
        self.arrays = IndexArrays(data[:tokens * dtype.itemsize].view(dtype), offsets, starts)

    def is_unchanged(self) -> bool:
        """Returns whether the file has not changed since it was mapped."""
        return _stamp(self._file) == self._stamp


class GuardedIndex:
    """An index that is written again if its file changes while it is in use; thread-safe.

    Args:
      index: the index to start with.
      path: path of the text.
      make: function that returns the index of the current text.
    """

    def __init__(self, index: MappedIndex, path: str, make: Callable[[], MappedIndex]) -> None:
        self._index, self._path, self._make = index, path, make
        self._lock = threading.Lock()

    @property
    def description(self) -> dict[str, Any]:
        """The description of the index."""
        return self._index.description

    @property
    def arrays(self) -> IndexArrays:
        """The arrays of the index.

        Raises:
          DataError: the file has changed, and so has the text.
        """
        with self._lock:
            if not self._index.is_unchanged():
                deco_print(f"The index of {self._path} was damaged while it was in use: rebuilding it.")
                fresh = self._make()
                if fresh.description["digest"] != self._index.description["digest"]:
                    raise DataError(f"The index of {self._path} was damaged while it was in use, and cannot be rebuilt "
                                    "because the text has changed since this run started: start the run again.")
                self._index = fresh
            return self._index.arrays


def _stamp(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _rise(*positions: np.ndarray) -> bool:
    return all(bool(numbers[0] >= 0 and np.all(numbers[1:] >= numbers[:-1])) for numbers in positions)
