"""Text files as flat arrays of token ids, tokenised once.

A file of some size gets an *index* beside it: its tokens, where each sentence begins
among them, and where each line begins in the text. The index is mapped into memory, so
that ten million sentences are there at once and several processes share one copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from open_seq2seq.data.text2text.tokenizers import Tokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens, rounded_up
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.own_files import without_links

# Tokenising less than this takes about a second, so it is not worth a file.
INDEX_FROM_BYTES = 16 << 20
_CHUNK_BYTES = 8 << 20
_VERSION = 1
_MAGIC = b"OS2SIDX1"
_TOKEN_TYPES = ("uint16", "int32")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TokenCorpus:
    """The sentences of one text file.

    Attributes:
      path: the text file.
      tokens: ids of all sentences one after another ``[tokens]``, without special tokens.
      offsets: where each sentence begins in ``tokens`` ``[sentences + 1]``.
      line_starts: where each line begins in the file, in bytes ``[sentences + 1]``.
    """

    path: str
    tokens: np.ndarray
    offsets: np.ndarray
    line_starts: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> np.ndarray:
        """Tokens of each sentence ``[sentences]``, int32."""
        return np.diff(self.offsets).astype(np.int32)

    def line(self, number: int) -> str:
        """Returns a line of the file (from 0), without blanks at its ends."""
        begin, end = int(self.line_starts[number]), int(self.line_starts[number + 1])
        with open(self.path, "rb") as file:
            file.seek(begin)
            return file.read(end - begin).decode("utf-8", errors="replace").strip()

    def padded(self, sentences: np.ndarray, max_tokens: int, start_token: bool = True,
               multiple: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Gathers sentences, closes each with EOS and pads them to one length.

        Args:
          sentences: their numbers ``[batch]``.
          max_tokens: longer ones are cut, special tokens not counted.
          start_token: whether each begins with the start token.
          multiple: the padded length is a multiple of this.

        Returns:
          ids ``[batch, time]`` int32, and lengths ``[batch]`` int32 with special tokens and without padding.
        """
        lead = int(start_token)
        begin = self.offsets[sentences]
        counts = np.minimum(self.offsets[sentences + 1] - begin, max_tokens)
        lengths = (counts + lead + 1).astype(np.int32)
        width = rounded_up(int(lengths.max(initial=1)), multiple)
        ids = np.full((len(sentences), width), SpecialTextTokens.PAD_ID, np.int32)
        columns = np.arange(counts.max(initial=0))
        filled = columns < counts[:, np.newaxis]
        ids[:, lead:lead + len(columns)][filled] = self.tokens[(begin[:, np.newaxis] + columns)[filled]]
        if start_token:
            ids[:, 0] = SpecialTextTokens.S_ID
        ids[np.arange(len(sentences)), lengths - 1] = SpecialTextTokens.EOS_ID
        return ids, lengths


@dataclass(frozen=True)
class _Chunk:
    """Some consecutive lines: their ids ``[tokens]``, tokens a line ``[lines]``, line starts in bytes ``[lines]``."""

    tokens: np.ndarray
    counts: np.ndarray
    starts: np.ndarray


def corpus_of_lines(lines: list[str], tokenizer: Tokenizer) -> TokenCorpus:
    """Returns a corpus of lines that are no file's."""
    tokens, counts = tokenizer.encode(lines)
    return TokenCorpus("", tokens, _offsets(counts), np.zeros(len(lines) + 1, np.int64))


def load_corpus(path: str, tokenizer: Tokenizer, index_dir: str | None = None, threads: int = 1) -> TokenCorpus:
    """Returns the sentences of a text file, from its index when there is a valid one.

    Args:
      path: UTF-8 text, one sentence a line.
      tokenizer: turns lines to ids.
      index_dir: folder of the index. By default large files have theirs in a folder
        ``.os2s_index`` beside them, or in the user's cache when that cannot be written,
        and small files are tokenised in memory.
      threads: of the tokenizer, where it can use them.

    Raises:
      DataError: a file that is missing, empty or not UTF-8; an index that cannot be written.
    """
    if not os.path.isfile(path):
        raise DataError(f"The text file {path} does not exist.")
    if index_dir is None and os.path.getsize(path) < INDEX_FROM_BYTES:
        return _in_memory(path, tokenizer, threads)
    key = hashlib.sha256(f"{os.path.realpath(path)}\n{tokenizer.fingerprint}".encode()).hexdigest()[:16]
    name = f"{os.path.basename(path)}.{key}.index"
    corpus = _read_index(os.path.join(index_dir or _dir_beside(path), name), path)
    if corpus is not None:
        return corpus
    index_dir = index_dir or _writable_dir(path)
    index = os.path.join(index_dir, name)
    try:
        os.makedirs(index_dir, exist_ok=True)
        # Ranks that start together wait here for the first of them.
        with _locked(index + ".lock"):
            corpus = _read_index(index, path)
            if corpus is None:
                _write_index(index, path, tokenizer, threads)
                corpus = _read_index(index, path)
    except OSError as error:
        raise DataError(f"The index of {path} cannot be written to {index_dir} ({error.strerror}): set index_dir to a "
                        "folder with enough room.") from error
    if corpus is None:
        raise DataError(f"{path} changed while it was read: start again when nothing writes to it.")
    return corpus


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _token_type(vocab_size: int) -> Any:
    return np.uint16 if vocab_size <= 1 << 16 else np.int32


def _in_memory(path: str, tokenizer: Tokenizer, threads: int) -> TokenCorpus:
    chunks = list(_chunks(path, tokenizer, threads))
    tokens = np.concatenate([chunk.tokens for chunk in chunks])
    starts = np.concatenate([chunk.starts for chunk in chunks] + [[os.path.getsize(path)]])
    return TokenCorpus(path, tokens, _offsets(np.concatenate([chunk.counts for chunk in chunks])), starts)


def _chunks(path: str, tokenizer: Tokenizer, threads: int) -> Iterator[_Chunk]:
    """Reads and tokenises a file, some megabytes at a time."""
    lines_before = 0
    for start, block in _line_blocks(path):
        text = _decode(block, path, lines_before)
        lines = (text[:-1] if text.endswith("\n") else text).split("\n")
        tokens, counts = tokenizer.encode(lines, threads)
        if len(tokens) and int(tokens.max()) >= tokenizer.vocab_size:
            line = int(np.searchsorted(np.cumsum(counts), int(tokens.argmax()), side="right"))
            raise DataError(f"{path}:{lines_before + line + 1}: the token id {int(tokens.max())} is beyond the "
                            f"vocabulary of {tokenizer.vocab_size}.")
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
        starts = start + np.concatenate([[0], ends])[:len(lines)]
        yield _Chunk(tokens.astype(_token_type(tokenizer.vocab_size)), counts, starts)
        lines_before += len(lines)
    if not lines_before:
        raise DataError(f"The text file {path} is empty.")


def _line_blocks(path: str) -> Iterator[tuple[int, bytes]]:
    """Yields (position in bytes, whole lines), in blocks of about ``_CHUNK_BYTES``."""
    with open(path, "rb") as file:
        position = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
        file.seek(position)
        while block := file.read(_CHUNK_BYTES):
            block += file.readline()
            yield position, block
            position += len(block)


def _decode(block: bytes, path: str, lines_before: int) -> str:
    try:
        return block.decode("utf-8")
    except UnicodeDecodeError as error:
        line = lines_before + block.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}:{line}: the line is not valid UTF-8: convert the file, for example by iconv."
                        ) from error


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
    """Holds a lock that ends with the process; where there are no such locks, goes on without.

    Raises:
      DataError: what stands there is a link or a pipe, which somebody else has made.
    """
    try:
        file = disk.open_lock(path, disk.always)
    except disk.ForeignError as error:
        raise DataError(f"{path}, the lock of a text's index, is a link or no file: remove it, or give another "
                        "index_dir.") from error
    with file:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _identity(path: str) -> dict[str, int]:
    """What tells whether a text file is still the one that was indexed."""
    status = os.stat(path)
    return {"version": _VERSION, "size": status.st_size, "mtime_ns": status.st_mtime_ns}


def _write_index(index: str, path: str, tokenizer: Tokenizer, threads: int) -> None:
    """Writes tokens, offsets, line starts and a description, and only then gives the file its name."""
    identity, began = _identity(path), time.perf_counter()
    deco_print(f"Tokenising {path} ({identity['size'] / 1e6:.0f} MB) to {index}")
    with disk.writing(index, disk.always, durable=True) as out:
        description = {**identity, **_write_arrays(out, _chunks(path, tokenizer, threads))}
        footer = json.dumps(description).encode()
        out.write(footer + len(footer).to_bytes(8, "little") + _MAGIC)
    deco_print(f"{description['sentences']} sentences in {time.perf_counter() - began:.1f} s", offset=1)


def _write_arrays(out: BinaryIO, chunks: Iterator[_Chunk]) -> dict[str, Any]:
    counts, starts, token_type = [], [], "uint16"
    for chunk in chunks:
        out.write(chunk.tokens.tobytes())
        counts.append(chunk.counts.astype(np.int32))
        starts.append(chunk.starts)
        token_type = chunk.tokens.dtype.name
        end = int(out.tell())
    out.write(bytes(rounded_up(end) - end))
    offsets = _offsets(np.concatenate(counts))
    out.write(offsets.tobytes())
    out.write(np.concatenate(starts).astype(np.int64).tobytes())
    return {"sentences": len(offsets) - 1, "tokens": int(offsets[-1]), "token_type": token_type}


def _read_index(index: str, path: str) -> TokenCorpus | None:
    """Maps an index into memory; returns None when there is none, it is broken, or the text has changed."""
    identity = _identity(path)
    try:
        with open(index, "rb", opener=without_links) as file:
            file.seek(-16, os.SEEK_END)
            tail = file.read()
            length = int.from_bytes(tail[:8], "little")
            if tail[8:] != _MAGIC:
                return None
            file.seek(-16 - length, os.SEEK_END)
            description = json.loads(file.read(length))
            arrays_end = file.tell() - length
    except (OSError, ValueError, OverflowError, RecursionError):
        return None
    if not isinstance(description, dict) or any(description.get(key) != value for key, value in identity.items()):
        return None
    tokens, sentences, token_type = (description.get(key) for key in ("tokens", "sentences", "token_type"))
    if type(tokens) is not int or type(sentences) is not int or min(tokens, sentences) < 0 \
            or token_type not in _TOKEN_TYPES:
        return None
    begin = rounded_up(tokens * np.dtype(token_type).itemsize)
    if arrays_end != begin + 8 * (2 * sentences + 1):
        return None
    data = np.memmap(index, np.uint8, "r").view(np.ndarray)
    numbers = data[begin:begin + 8 * (2 * sentences + 1)].view(np.int64)
    offsets, starts = numbers[:sentences + 1], np.append(numbers[sentences + 1:], description["size"])
    if offsets[0] != 0 or offsets[-1] != tokens or not _rises(offsets) or starts[0] < 0 or not _rises(starts):
        return None
    return TokenCorpus(path, data[:begin].view(token_type)[:tokens], offsets, starts)


def _rises(numbers: np.ndarray) -> bool:
    return bool(np.all(numbers[1:] >= numbers[:-1]))
