"""Text files, tokenised once into flat arrays of token ids.

The arrays of a large file are stored in an *index*, by default beside the file: the tokens, the start of each sentence
in the tokens, and the start of each line in the text. An index is memory-mapped, so that it loads instantly and several
processes share one copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tempfile
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from open_seq2seq.data.text2text.tokenizers import Tokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens, rounded_up
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import Bar, deco_print
from open_seq2seq.utils.data_files import BOM, MOST_LINE_BYTES, is_packed, not_utf8, opened_data, read_data, too_long
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
    if not differ - {"ctime_ns"} and (differ or thorough):
        with opened_data(path, "The text file") as text:
            digest = hashlib.file_digest(text, new_digest).hexdigest()  # type: ignore[arg-type]
        differ = {"digest"} if mapped.description.get("digest") != digest else set()
    if differ:
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


def _stamp(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _rise(*positions: np.ndarray) -> bool:
    return all(bool(numbers[0] >= 0 and np.all(numbers[1:] >= numbers[:-1])) for numbers in positions)


# Tokenising smaller files takes at most about a second, so an index is not worthwhile.
INDEX_FROM_BYTES = 16 << 20
_CHUNK_BYTES = 8 << 20
_KILLED_SECONDS = 3600.0  # an unfinished index that has not changed for so long is that of a killed process


class Layout(NamedTuple):
    """How texts are laid out in the rows of a batch.

    Attributes:
      max_tokens: maximum number of tokens of a text, without special tokens; longer texts are cut.
      start: id before each text; None for no id.
      end: id after each text; None for no id.
      padding: id after the end of a row.
      multiple: the width of a batch is a multiple of this value.
      keep_end: whether the beginning of a text that is too long is cut off, instead of its end.
    """

    max_tokens: int
    start: int | None = int(SpecialTextTokens.S_ID)
    end: int | None = int(SpecialTextTokens.EOS_ID)
    padding: int = int(SpecialTextTokens.PAD_ID)
    multiple: int = 1
    keep_end: bool = False

    @property
    def num_special(self) -> int:
        """Number of special tokens in each row."""
        return (self.start is not None) + (self.end is not None)

    def lengths(self, counts: np.ndarray) -> np.ndarray:
        """Returns the lengths in a batch, without padding, of texts with these numbers of tokens, both of any shape."""
        return np.minimum(counts, self.max_tokens) + np.int32(self.num_special)


class TokenCorpus:
    """The sentences of one text file; thread-safe.

    Args:
      path: path of the file.
      source: the arrays, or the index that contains them.
      text: content of the file; if None, ``line`` reads the file.
      remake: function that returns the index of the current text, if the file of ``source`` changes while it is in use.
    """

    def __init__(self, path: str, source: IndexArrays | MappedIndex, text: bytes | None = None,
                 remake: Callable[[], MappedIndex] | None = None) -> None:
        self.path, self._source, self._text, self._remake = path, source, text, remake
        self._lock = threading.Lock()

    @property
    def _arrays(self) -> IndexArrays:
        if isinstance(self._source, IndexArrays):
            return self._source
        with self._lock:
            if self._remake is not None and not self._source.is_unchanged():
                deco_print(f"The index of {self.path} was damaged while it was in use: rebuilding it.")
                fresh = self._remake()
                if fresh.description["digest"] != self._source.description["digest"]:
                    raise DataError(f"The index of {self.path} was damaged while it was in use, and cannot be rebuilt "
                                    "because the text has changed since this run started: start the run again.")
                self._source = fresh
            return self._source.arrays

    @property
    def is_indexed(self) -> bool:
        """Whether the arrays are stored in an index."""
        return isinstance(self._source, MappedIndex)

    @property
    def tokens(self) -> np.ndarray:
        """Concatenated ids of all sentences ``[tokens]``, without special tokens."""
        return self._arrays.tokens

    @property
    def offsets(self) -> np.ndarray:
        """Start of each sentence in ``tokens``, and the end of the last ``[sentences + 1]``."""
        return self._arrays.offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> np.ndarray:
        """Number of tokens in each sentence ``[sentences]``, int32."""
        return np.diff(self.offsets).astype(np.int32)

    def line(self, number: int) -> str:
        """Returns a line of the file by its number (from 0), without white space at its ends."""
        begin, end = self._arrays.line_starts[number:number + 2].tolist()
        line = self._line_of_file(begin, end) if self._text is None else self._text[begin:end]
        return line.decode("utf-8", errors="replace").strip()

    def _line_of_file(self, begin: int, end: int) -> bytes:
        assert isinstance(self._source, MappedIndex)
        identity = self._source.description
        with opened_data(self.path, "The text file") as file:
            status = os.fstat(file.fileno())
            if (status.st_size, status.st_mtime_ns) != (identity["size"], identity["mtime_ns"]):
                raise DataError(f"The text file {self.path} has changed since this run started: start the run again.")
            file.seek(begin)
            return file.read(end - begin)

    def padded(self, sentences: np.ndarray, layout: Layout) -> list[np.ndarray]:
        """Gathers sentences and pads them to a common length.

        Args:
          sentences: indices of the sentences ``[batch]``.
          layout: the special ids, and how long sentences are cut.

        Returns:
          [ids ``[batch, time]``, lengths ``[batch]``], both int32; lengths include special tokens, but not padding.
        """
        lead = int(layout.start is not None)
        offsets = self.offsets
        begin, end = offsets[sentences], offsets[sentences + 1]
        counts = np.minimum(end - begin, layout.max_tokens)
        begin = end - counts if layout.keep_end else begin
        lengths = layout.lengths(counts).astype(np.int32)
        width = rounded_up(int(lengths.max(initial=1)), layout.multiple)
        ids = np.full((len(sentences), width), layout.padding, np.int32)
        columns = np.arange(counts.max(initial=0))
        filled = columns < counts[:, np.newaxis]
        positions = (begin[:, np.newaxis] + columns)[filled]
        ids[:, lead:lead + len(columns)][filled] = self.tokens_at(positions)
        if layout.start is not None:
            ids[:, 0] = layout.start
        if layout.end is not None:
            ids[np.arange(len(sentences)), lengths - 1] = layout.end
        return [ids, lengths]

    def tokens_at(self, places: np.ndarray) -> np.ndarray:
        """Returns the tokens at some positions ``[n]`` in ``tokens``."""
        return self.tokens[places]


@dataclass(frozen=True)
class _Chunk:
    """Consecutive lines of a text file.

    Attributes:
      tokens: concatenated ids of all lines ``[tokens]``.
      counts: number of tokens in each line ``[lines]``.
      starts: start of each line in the file, in bytes ``[lines]``.
    """

    tokens: np.ndarray
    counts: np.ndarray
    starts: np.ndarray


def corpus_of_lines(lines: list[str], tokenizer: Tokenizer, path: str = "", threads: int = 1) -> TokenCorpus:
    """Returns a corpus of lines in memory.

    Args:
      lines: the lines, which must not contain line ends.
      tokenizer: converts lines to ids.
      path: the file that the lines are from, if any.
      threads: number of threads for tokenising, if the tokenizer supports threads.
    """
    encoded = [line.encode("utf-8", "replace") for line in lines]  # half of a surrogate pair becomes "?"
    tokens, counts = tokenizer.encode([line.decode() for line in encoded], threads)
    starts = _offsets(np.fromiter(map(len, encoded), np.int64, len(encoded)))
    return TokenCorpus(path, IndexArrays(tokens, _offsets(counts), starts), b"".join(encoded))


def load_corpus(path: str, tokenizer: Tokenizer, index_dir: str | None = None, threads: int = 1,
                thorough: bool = False) -> TokenCorpus:
    """Returns the sentences of a text file, from its index if that is valid.

    Args:
      path: UTF-8 text file, one sentence per line. A file that is compressed by gzip has no index; its text is in
        memory.
      tokenizer: converts lines to ids.
      index_dir: folder of the index. By default, the index of a large file is in the folder ``.os2s_index`` beside the
        file, or in the user's cache folder if the former is not writable; small files are tokenised in memory.
      threads: number of threads for tokenising, if the tokenizer supports threads.
      thorough: whether to compare the digest of the whole text with that of its index.

    Raises:
      DataError: the file is missing, empty or not UTF-8, or the index cannot be written.
    """
    with opened_data(path, "The text file") as file:
        in_memory = is_packed(path, file) or (index_dir is None and os.fstat(file.fileno()).st_size < INDEX_FROM_BYTES)
    if in_memory:
        text = read_data(path, "The text file", unpack=True)
        chunks = list(_chunks(io.BytesIO(text), path, tokenizer, threads))
        tokens = np.concatenate([chunk.tokens for chunk in chunks])
        starts = np.concatenate([chunk.starts for chunk in chunks] + [[len(text)]])
        offsets = _offsets(np.concatenate([chunk.counts for chunk in chunks]))
        return TokenCorpus(path, IndexArrays(tokens, offsets, starts), text)

    def index(thorough: bool = False) -> MappedIndex:
        return _index_of(path, tokenizer, index_dir, threads, thorough)

    return TokenCorpus(path, index(thorough), remake=index)


def _index_of(path: str, tokenizer: Tokenizer, index_dir: str | None, threads: int, thorough: bool) -> MappedIndex:
    """Returns the index of a text; builds the index if there is no valid one."""
    key = hashlib.sha256(f"{os.path.realpath(path)}\n{tokenizer.fingerprint}".encode(
        "utf-8", "surrogateescape")).hexdigest()[:16]
    name = f"{os.path.basename(path)}.{key}.index"
    try:
        with contextlib.suppress(UnfitIndexError):
            index = os.path.join(index_dir or _dir_beside(path), name)
            mapped = read_index(index, path, tokenizer.vocab_size, thorough)
            if mapped is not None:
                return mapped
        index_dir = index_dir or _writable_dir(path)
        index = os.path.join(index_dir, name)
        os.makedirs(index_dir, exist_ok=True)
        # Ranks that start together wait here until one of them has built the index.
        with _locked(index + ".lock"):
            try:
                mapped = read_index(index, path, tokenizer.vocab_size, thorough)
            except UnfitIndexError as error:
                deco_print(f"Rebuilding the index {index}: {error}.")
                mapped = None
            if mapped is None:
                # Those of killed processes are as large as the index.
                disk.remove_unfinished(Path(index_dir), before=time.time() - _KILLED_SECONDS)
                _write_index(index, path, tokenizer, threads)
                mapped = read_index(index, path, tokenizer.vocab_size)
    except OSError as error:
        raise DataError(f"The index of {path} cannot be written to {index_dir} ({error.strerror}): name a "
                        "writable folder with enough space as index_dir or, for a language model, "
                        "processed_data_folder.") from error
    except UnfitIndexError:
        mapped = None
    if mapped is None:
        raise DataError(f"{path} changed while it was read: start the run again when no program writes to the file.")
    return mapped


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _chunks(file: BinaryIO, path: str, tokenizer: Tokenizer, threads: int,
            digest: hashlib.blake2b | None = None) -> Iterator[_Chunk]:
    """Reads and tokenises a file in chunks of some megabytes."""
    lines_before = 0
    for start, block in _line_blocks(file, path, digest):
        text = _decode(block, path, lines_before)
        lines = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
        tokens, counts = tokenizer.encode(lines, threads)
        if len(tokens) and int(tokens.max()) >= tokenizer.vocab_size:
            line = int(np.searchsorted(np.cumsum(counts), int(tokens.argmax()), side="right"))
            raise DataError(f"{path}:{lines_before + line + 1}: the token id {int(tokens.max())} must be below the "
                            f"vocabulary size, {tokenizer.vocab_size}.")
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
        starts = start + np.concatenate([[0], ends])[:len(lines)]
        yield _Chunk(tokens.astype(token_type(tokenizer.vocab_size)), counts, starts)
        lines_before += len(lines)
    if not lines_before:
        raise DataError(f"The text file {path} is empty.")


def _line_blocks(file: BinaryIO, path: str, digest: hashlib.blake2b | None) -> Iterator[tuple[int, bytes]]:
    """Yields (position in bytes, block of whole lines), with blocks of about ``_CHUNK_BYTES``."""
    position = lines = 0
    while block := file.read(_CHUNK_BYTES):
        rest = file.readline(MOST_LINE_BYTES + 1)
        if len(rest) > MOST_LINE_BYTES:
            raise too_long(path, lines + block.count(b"\n") + 1)
        block += rest
        if digest is not None:
            digest.update(block)
        lead = len(BOM) if position == 0 and block.startswith(BOM) else 0
        if len(block) > lead:
            yield position + lead, block[lead:]
        position, lines = position + len(block), lines + block.count(b"\n")


def _decode(block: bytes, path: str, lines_before: int) -> str:
    try:
        return block.decode("utf-8")
    except UnicodeDecodeError as error:
        raise not_utf8(path, lines_before + block.count(b"\n", 0, error.start) + 1) from error


def _dir_beside(path: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(path)), ".os2s_index")


def _writable_dir(path: str) -> str:
    beside = _dir_beside(path)
    if os.access(beside if os.path.isdir(beside) else os.path.dirname(beside), os.W_OK):
        return beside
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    with contextlib.suppress(OSError):
        os.makedirs(cache, exist_ok=True)
    if not os.access(cache, os.W_OK):
        cache = tempfile.gettempdir()
    return os.path.join(cache, "open_seq2seq", "index")


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Holds a file lock, which the system releases if the process dies; does nothing if locks are not supported.

    Raises:
      DataError: the lock file is a symbolic link or not a regular file.
    """
    try:
        file = disk.open_lock(path, disk.always)
    except disk.ForeignError as error:
        raise DataError(f"The lock file {path} of an index is a symbolic link or not a regular file: remove it, or "
                        "name another folder as index_dir or, for a language model, processed_data_folder.") from error
    with file:
        disk.lock(file, wait=True)
        yield


def _write_index(index: str, path: str, tokenizer: Tokenizer, threads: int) -> None:
    """Writes an index, which appears under its name only once complete."""
    identity, began = identity_of(path), time.perf_counter()
    deco_print(f"Tokenising {path} ({identity['size'] / 1e6:.0f} MB) to {index}")
    digest, counts, starts, bar = new_digest(), [], [], Bar(identity["size"])
    with disk.writing(index, disk.always, durable=True) as out:
        with opened_data(path, "The text file") as file:
            for chunk in _chunks(file, path, tokenizer, threads, digest):
                out.write(chunk.tokens.tobytes())
                bar.update(int(chunk.starts[-1]) if len(chunk.starts) else 0, f"Tokenising {os.path.basename(path)}")
                counts.append(chunk.counts.astype(np.int32))
                starts.append(chunk.starts)
        bar.hide()
        offsets = _offsets(np.concatenate(counts))
        numbers = {"digest": digest.hexdigest(), "sentences": len(offsets) - 1, "tokens": int(offsets[-1])}
        footer = json.dumps({**identity, **numbers}).encode()
        out.write(bytes(-out.tell() % _NUMBER_BYTES))
        out.write(np.concatenate([offsets, *starts]).astype(np.int64).tobytes())
        out.write(footer + len(footer).to_bytes(_NUMBER_BYTES, "little"))
        out.write(_checksum(out, out.tell()).to_bytes(_NUMBER_BYTES, "little"))
    deco_print(f"{len(offsets) - 1} sentences in {time.perf_counter() - began:.1f} s", offset=1)
