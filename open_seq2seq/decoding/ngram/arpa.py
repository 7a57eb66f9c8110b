"""Files of n-gram models: ARPA, plain or gzipped, and KenLM's binary files."""

from __future__ import annotations

import gzip
import io
import math
import os
import re
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np

from open_seq2seq.decoding.ngram.model import EOS, UNKNOWN, LanguageModel, NgramModel, Order
from open_seq2seq.utils.data_files import opened_text, read_lines
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.output_file import OutputFiles

_LN10 = math.log(10.0)
_MOST = 1e30
_COUNT = re.compile(r"ngram\s+(\d{1,3})\s*=\s*(\d{1,18})\s*$")
_SEPARATOR = re.compile(r"[ \t]+")
_SECTION = re.compile(r"\\(\d{1,3})-grams:\s*$")


class _Reader:
    """Reads lines and keeps track of the line number for messages."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = 0

    def lines(self) -> Iterator[str]:
        """Yields the non-empty lines without their line endings."""
        for line in read_lines(self.path, "The language model"):
            self.number += 1
            if line and not line.isspace():
                yield line
        self.number += 1

    def error(self, what: str) -> DataError:
        """Returns an error whose message names the current line."""
        return DataError(f"{self.path}, line {self.number}: {what}")


def read_arpa(path: str) -> NgramModel:
    """Reads a model from an ARPA file.

    Raises:
      DataError: the file does not exist, or is not a valid ARPA file; the message names the line.
    """
    reader = _Reader(path)
    lines = reader.lines()
    counts, line = _read_counts(reader, lines)
    # Upper bound on the number of n-grams: a line has at least four characters, and gzip compresses at most 1032-fold.
    room = os.path.getsize(path) * (1032 if path.endswith(".gz") else 1) // 4
    if max(counts) > room:
        raise DataError(f"The header of {path} announces {max(counts):,} n-grams of one length, but the file is too "
                        "small to contain them: give a file that is not truncated.")
    words: dict[str, int] = {}
    orders: list[Order] = []
    # Maps the word ids of the previous order's n-grams, which are the contexts of the current order, to their indices.
    contexts: dict[tuple[int, ...], int] = {}
    for n, count in enumerate(counts, 1):
        match = _SECTION.match(line)
        if match is None or int(match.group(1)) != n:
            raise reader.error(f"expected '\\{n}-grams:', got {line[:60]!r}.")
        table = _read_section(reader, lines, n, count, words)
        orders.append(_sorted_order(reader, table, n, contexts, len(words), n == len(counts)))
        line = table.next_line
    if line.strip() != "\\end\\":
        raise reader.error(f"expected '\\end\\', got {line[:60]!r}.")
    return NgramModel(list(words), orders)


def _read_counts(reader: _Reader, lines: Iterator[str]) -> tuple[list[int], str]:
    counts: list[int] = []
    for line in lines:  # everything before \data\ is a comment
        if line.strip() == "\\data\\":
            break
    for line in lines:
        match = _COUNT.match(line.strip())
        if match is None:
            break
        if int(match.group(1)) != len(counts) + 1:
            raise reader.error(f"the counts of n-grams must be in order of their length, got {line!r}.")
        counts.append(int(match.group(2)))
    else:
        line = ""
    if not counts:
        raise reader.error("found no section '\\data\\' with 'ngram 1=…', so this is not an ARPA file.")
    return counts, line


class _Table:
    """The n-grams of one section, in the order of the file, and the line after the section."""

    def __init__(self, n: int, count: int) -> None:
        self.ids = np.empty([count, n], np.int32)
        self.log_probs = np.empty(count, np.float32)
        self.backoffs = np.zeros(count, np.float32)
        self.next_line = ""


def _read_section(reader: _Reader, lines: Iterator[str], n: int, count: int, words: dict[str, int]) -> _Table:
    table = _Table(n, count)
    row = 0
    for line in lines:
        if line.startswith("\\"):
            table.next_line = line
            break
        if row == count:
            raise reader.error(f"there are more {n}-grams than the {count} announced.")
        # Words may contain other spaces, such as a no-break space.
        fields = line.split() if line.isascii() else [field for field in _SEPARATOR.split(line) if field]
        try:
            if not n + 1 <= len(fields) <= n + 2:
                raise ValueError
            table.log_probs[row] = _number(fields[0]) * _LN10
            if len(fields) == n + 2:
                table.backoffs[row] = _number(fields[-1]) * _LN10
        except ValueError:
            raise reader.error(f"expected a {n}-gram (a log probability, {n} word(s) and optionally a back-off "
                               f"weight), got {line[:60]!r}.") from None
        if n == 1:
            if words.setdefault(fields[1], row) != row:
                raise reader.error(f"the word {fields[1]!r} is listed twice.")
            table.ids[row] = row
        else:
            try:
                table.ids[row] = [words[word] for word in fields[1:n + 1]]
            except KeyError as error:
                raise reader.error(f"the word {error} is not among the 1-grams.") from None
        row += 1
    if row < count:
        raise reader.error(f"there are {row} {n}-grams instead of the {count} announced.")
    return table


def _number(text: str) -> float:
    """Parses a number; minus infinity, the logarithm of a probability of 0, becomes -1e30."""
    number = float(text)
    if not number < _MOST:  # also rejects NaN
        raise ValueError
    return max(number, -_MOST)


def _sorted_order(reader: _Reader, table: _Table, n: int, contexts: dict[tuple[int, ...], int], vocab_size: int,
                  is_last: bool) -> Order:
    """Sorts the n-grams by context and word, and, unless ``is_last``, stores their indices in ``contexts``."""
    ids = table.ids
    if n == 1:
        keys = ids[:, 0].astype(np.int64)
    else:
        try:
            numbers = [contexts[tuple(row)] for row in ids[:, :-1].tolist()]
        except KeyError as error:
            raise reader.error(f"the context of a {n}-gram (word ids {error}) is not among the {n - 1}-grams."
                               ) from None
        keys = np.array(numbers, np.int64) * vocab_size + ids[:, -1]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    if (keys[1:] == keys[:-1]).any():
        raise reader.error(f"one of the {n}-grams above is listed twice.")
    if not is_last:
        contexts.clear()
        contexts.update(zip(map(tuple, ids[order].tolist()), range(len(order)), strict=True))
    return Order(keys, table.log_probs[order], np.zeros_like(table.backoffs) if is_last else table.backoffs[order])


def write_arpa(path: str, model: NgramModel) -> None:
    """Writes a model to an ARPA file, gzipped if the path ends in ``.gz``."""
    with OutputFiles() as outputs, _text_to(outputs.open(path, "wb"), path) as out:
        out.write("\n\\data\\\n")
        out.writelines(f"ngram {n}={count}\n" for n, count in enumerate(model.counts, 1))
        names: list[str] = []
        for n, order in enumerate(model.orders(), 1):
            contexts, last = np.divmod(order.keys, len(model.words))
            names = [model.words[w] if n == 1 else f"{names[c]} {model.words[w]}"
                     for c, w in zip(contexts.tolist(), last.tolist(), strict=True)]
            out.write(f"\n\\{n}-grams:\n")
            rows = zip(order.log_probs.tolist(), names, order.backoffs.tolist(), strict=True)
            if n < model.order:
                out.writelines(f"{p / _LN10:.6g}\t{name}\t{b / _LN10:.6g}\n" for p, name, b in rows)
            else:
                out.writelines(f"{p / _LN10:.6g}\t{name}\n" for p, name, _ in rows)
        out.write("\n\\end\\\n")


def _text_to(file: IO[bytes], path: str) -> IO[str]:
    if path.endswith(".gz"):
        file = gzip.GzipFile(os.path.basename(path), "wb", fileobj=file)  # type: ignore[assignment]
    return io.TextIOWrapper(file, encoding="utf-8", newline="\n")  # type: ignore[type-var]


class KenlmModel:
    """A model read with the package kenlm; states are numbered in the order of their first use.

    Each state is the context of an n-gram of the model, so the model has at most as many states as n-grams.

    Args:
      path: the binary file.
      words: the model's vocabulary, which the binary file does not contain.

    Raises:
      DataError: the package is missing, or it cannot read the file.
    """

    def __init__(self, path: str, words: Sequence[str]) -> None:
        try:
            import kenlm
        except ImportError as error:
            raise DataError(f"{path} is a KenLM binary file, but the package kenlm is not installed: run "
                            "`pip install kenlm` (which compiles it), or give the ARPA file that the binary was made "
                            "from.") from error
        try:
            self._model = kenlm.Model(path)
        except (OSError, RuntimeError) as error:
            raise DataError(f"KenLM cannot read {path}: {error}") from error
        self._make_state = kenlm.State
        self.order = int(self._model.order)
        self.words = list(words)
        start = kenlm.State()
        self._model.BeginSentenceWrite(start)
        self._states = [start]
        self._numbers: dict = {start: 0}

    def start_state(self) -> int:
        return 0

    def score(self, states: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        results = [self._score_one(state, self.words[word] if word >= 0 else UNKNOWN)
                   for state, word in zip(np.asarray(states).tolist(), np.asarray(words).tolist(), strict=True)]
        scores, after = zip(*results, strict=True) if results else ((), ())
        return np.array(scores, np.float64), np.array(after, np.int64)

    def score_end(self, states: np.ndarray) -> np.ndarray:
        return np.array([self._score_one(state, EOS)[0] for state in np.asarray(states).tolist()])

    def _score_one(self, state: int, word: str) -> tuple[float, int]:
        after = self._make_state()
        score = self._model.BaseScore(self._states[state], word, after)
        number = self._numbers.setdefault(after, len(self._states))
        if number == len(self._states):
            self._states.append(after)
        return score * _LN10, number


def load_language_model(path: str, vocabulary: str | None = None) -> LanguageModel:
    """Loads an ARPA file (plain or ``.gz``) or a KenLM binary file.

    Args:
      path: the model.
      vocabulary: text file with the model's words, separated by white space; required for a KenLM binary file.

    Raises:
      DataError: a file is missing or invalid, or the package kenlm is required but not installed.
    """
    with opened_text(path, "The language model") as file:
        is_kenlm_binary = file.read(5) == b"mmap "
    if not is_kenlm_binary:
        return read_arpa(path)
    if vocabulary is None:
        raise DataError(f"{path} is a KenLM binary file, which does not contain the model's words: give a text file of "
                        "the words (`lm_vocabulary`), or the ARPA file that the binary was made from.")
    words = dict.fromkeys(word for line in read_lines(vocabulary, "The vocabulary") for word in line.split())
    return KenlmModel(path, list(words))
