"""The index of a tokenised text: a memory-mapped file that is verified before use.

An index contains the tokens, the position of each sentence in the tokens and of each line in the text, the CRC32 of
each block of tokens, and a JSON description with the CRC32 of the positions and the identity of the text.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
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
from open_seq2seq.utils.sealed import sealed, unsealed

_VERSION = 2
_MAGIC = b"OS2SIDX2"
_TOKEN_TYPES = ("uint16", "int32")
_BLOCK_BYTES = 1 << 16
"""Size in bytes of a block of tokens. Each block has a checksum, which is verified when the block is first used."""
_SAMPLES, _SAMPLE_BYTES = 64, 1 << 12


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


class TextDigest:
    """A digest of a whole text, computed while the text is read."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def update(self, block: bytes) -> None:
        """Adds the next part of the text."""
        self._hash.update(block)

    def __str__(self) -> str:
        return self._hash.hexdigest()


def identity_of(path: str) -> dict[str, Any]:
    """Returns the identity of a text: size, mtime, ctime, a checksum of samples, and the version of the index format.

    The ctime is included because, unlike the mtime, it cannot be set by users (with ``touch``, for instance).

    Raises:
      DataError: the text cannot be read.
    """
    with opened_data(path, "The text file") as file:
        status = os.fstat(file.fileno())
        places = np.linspace(0, max(0, status.st_size - _SAMPLE_BYTES), _SAMPLES).astype(np.int64)
        samples = b"".join(os.pread(file.fileno(), _SAMPLE_BYTES, place) for place in np.unique(places).tolist())
    return {"version": _VERSION, "size": status.st_size, "mtime_ns": status.st_mtime_ns,
            "samples": zlib.crc32(samples), "ctime_ns": status.st_ctime_ns}


def _digest_of(path: str) -> str:
    digest = TextDigest()
    with opened_data(path, "The text file") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return str(digest)


class IndexWriter:
    """Writes the parts of an index to a binary file."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._written, self._rest = out, 0, b""
        self._checks: list[int] = []

    def write_tokens(self, tokens: np.ndarray) -> None:
        """Writes the next tokens."""
        content = tokens.tobytes()
        self._out.write(content)
        self._written += len(content)
        self._rest += content
        whole = len(self._rest) - len(self._rest) % _BLOCK_BYTES
        self._checks += _checks_of(self._rest[:whole])
        self._rest = self._rest[whole:]

    def finish(self, offsets: np.ndarray, line_starts: np.ndarray, description: dict[str, Any]) -> None:
        """Writes the rest of the index.

        Args:
          offsets: start of each sentence in the tokens, and the end of the last ``[sentences + 1]``.
          line_starts: start of each line in the text, in bytes ``[sentences]``.
          description: identity and digest of the text, and ``token_type``.
        """
        filling = bytes(rounded_up(self._written) - self._written)
        checks = np.array(self._checks + _checks_of(self._rest + filling), np.int64)
        numbers = np.concatenate([offsets, line_starts, checks]).astype(np.int64).tobytes()
        footer = sealed(json.dumps({**description, "sentences": len(offsets) - 1, "tokens": int(offsets[-1]),
                                    "check": zlib.crc32(numbers)}).encode())
        for part in (filling, numbers, footer, len(footer).to_bytes(8, "little"), _MAGIC):
            self._out.write(part)


def _checks_of(content: bytes) -> list[int]:
    return [zlib.crc32(content[i:i + _BLOCK_BYTES]) for i in range(0, len(content), _BLOCK_BYTES)]


def read_index(index: str, path: str, vocab_size: int, thorough: bool = False) -> MappedIndex | None:
    """Maps the index of a text into memory; returns None if the file does not exist.

    Args:
      index: path of the index.
      path: path of the text.
      vocab_size: number of valid ids.
      thorough: whether to verify the checksums of all tokens, and the digest of the whole text.

    Raises:
      UnfitIndexError: the index is damaged, or belongs to another text.
      DataError: the text cannot be read.
    """
    identity = identity_of(path)
    try:
        file = open(index, "rb", opener=without_links)  # noqa: SIM115 (the mapping keeps it open)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnfitIndexError(error.strerror or str(error)) from error
    try:
        description, numbers_end = _description(file)
        _compare(description, identity, path, thorough)
        found = MappedIndex(file, description, numbers_end, vocab_size)
        if thorough and not found.is_whole():
            raise UnfitIndexError("its tokens are damaged")
        return found
    except BaseException:
        file.close()
        raise


def _description(file: BinaryIO) -> tuple[dict[str, Any], int]:
    """Returns the description at the end of an index, and the description's position in bytes."""
    try:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnfitIndexError("it is not a regular file")
        end = file.seek(-16, os.SEEK_END)
        tail = file.read()
        length = int.from_bytes(tail[:8], "little")
        if tail[8:] != _MAGIC or length > end:
            raise UnfitIndexError("it has another version or is damaged")
        begin = file.seek(-16 - length, os.SEEK_END)
        description = json.loads(unsealed(file.read(length)) or b"")
    except (OSError, ValueError, OverflowError, RecursionError) as error:
        raise UnfitIndexError("its end is damaged") from error
    if not isinstance(description, dict):
        raise UnfitIndexError("its end is damaged")
    return description, begin


def _compare(description: dict[str, Any], identity: dict[str, Any], path: str, thorough: bool) -> None:
    """Raises UnfitIndexError if the text has changed since the index was written."""
    differ = {key for key, value in identity.items() if description.get(key) != value}
    # Copying text and index with their mtimes, or changing permissions, changes only the ctime; then the digest of the
    # text decides.
    if differ - {"ctime_ns"} or (differ or thorough) and description.get("digest") != _digest_of(path):
        raise UnfitIndexError("the text has changed")


class MappedIndex:
    """A memory-mapped index. The checksum of a block of tokens is verified when the block is first used.

    Call ``is_unchanged`` before each use, because reading beyond the end of a mapped file that was truncated kills the
    process with a signal.

    Args:
      file: the index; it is closed when this object is garbage-collected.
      description: the description at the end of the index.
      end: end of the arrays in the file, in bytes.
      vocab_size: number of valid ids.

    Attributes:
      arrays: the arrays, mapped into memory.

    Raises:
      UnfitIndexError: the arrays do not match the description.
    """

    def __init__(self, file: BinaryIO, description: dict[str, Any], end: int, vocab_size: int) -> None:
        self._file, self._stamp, self._vocab_size = file, _stamp(file), vocab_size
        weakref.finalize(self, file.close)
        self.description = description
        tokens, sentences, token_type = (description.get(key) for key in ("tokens", "sentences", "token_type"))
        if type(tokens) is not int or type(sentences) is not int or min(tokens, sentences) < 0 \
                or token_type not in _TOKEN_TYPES:
            raise UnfitIndexError("its description is invalid")
        begin = rounded_up(tokens * np.dtype(token_type).itemsize)
        blocks = -(-begin // _BLOCK_BYTES)
        if end != begin + 8 * (2 * sentences + 1 + blocks):
            raise UnfitIndexError("it is truncated or damaged")
        data = np.memmap(file, np.uint8, "r", shape=(end,)).view(np.ndarray)
        if zlib.crc32(data[begin:].data) != description.get("check"):
            raise UnfitIndexError("it is damaged")
        numbers = data[begin:].view(np.int64)
        offsets, starts, self._checks = np.split(numbers, [sentences + 1, 2 * sentences + 1])
        starts = np.append(starts, description["size"])
        if offsets[0] != 0 or offsets[-1] != tokens or not _rises(offsets) or starts[0] < 0 or not _rises(starts):
            raise UnfitIndexError("its positions are invalid")
        self._begin, self._per_block = begin, _BLOCK_BYTES // np.dtype(token_type).itemsize
        self._unchecked = np.ones(blocks, bool)
        self._all_checked = not blocks
        self.arrays = IndexArrays(data[:begin].view(token_type)[:tokens], offsets, starts)

    def is_unchanged(self) -> bool:
        """Returns whether the file has not changed since it was mapped; call this before reading the arrays."""
        return _stamp(self._file) == self._stamp

    def holds(self, places: np.ndarray) -> bool:
        """Returns whether the tokens at some positions ``[n]`` are valid."""
        if self._all_checked:
            return True
        blocks = places // self._per_block
        wanted = np.unique(blocks[self._unchecked[blocks]])
        return all(self._check(int(block)) for block in wanted)

    def is_whole(self) -> bool:
        """Returns whether all tokens are valid."""
        return all(self._check(int(block)) for block in np.flatnonzero(self._unchecked))

    def _check(self, block: int) -> bool:
        # Reads the file instead of the mapped memory, so that a disk error raises an exception.
        size = min(_BLOCK_BYTES, self._begin - block * _BLOCK_BYTES)
        try:
            content = os.pread(self._file.fileno(), size, block * _BLOCK_BYTES)
        except OSError:
            return False
        if len(content) != size or zlib.crc32(content) != self._checks[block]:
            return False
        tokens = np.frombuffer(content, self.arrays.tokens.dtype)
        if int(tokens.max()) >= max(1, self._vocab_size) or int(tokens.min()) < 0:
            return False
        self._unchecked[block] = False
        self._all_checked = not self._unchecked.any()
        return True


class GuardedIndex:
    """An index that is rebuilt if it is damaged while in use; thread-safe.

    Args:
      index: the index to start with.
      path: path of the text.
      make: function that returns a new or thoroughly verified index of the current text.
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
        """The arrays of the index. To get verified tokens, use ``tokens_at``, not ``arrays.tokens``."""
        index = self._index
        return index.arrays if index.is_unchanged() else self._renewed(index).arrays

    def tokens_at(self, places: np.ndarray) -> np.ndarray:
        """Returns the tokens at some positions ``[n]``, after verifying them."""
        index = self._index
        return (index if index.holds(places) else self._renewed(index)).arrays.tokens[places]

    def _renewed(self, index: MappedIndex) -> MappedIndex:
        with self._lock:
            if self._index is index:  # no other thread has replaced it
                deco_print(f"The index of {self._path} was damaged while it was in use: rebuilding it.")
                fresh = self._make()
                if fresh.description["digest"] != index.description["digest"]:
                    raise DataError(f"The index of {self._path} was damaged while it was in use, and cannot be rebuilt "
                                    "because the text has changed since this run started: start the run again.")
                self._index = fresh
            return self._index


def _stamp(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _rises(numbers: np.ndarray) -> bool:
    return bool(np.all(numbers[1:] >= numbers[:-1]))
