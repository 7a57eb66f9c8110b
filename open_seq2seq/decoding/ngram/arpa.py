"""ARPA files of n-gram models, plain or gzipped."""

from __future__ import annotations

import gzip
import io
import math
import os
import re
from collections.abc import Iterator
from typing import IO

import numpy as np

from open_seq2seq.decoding.ngram.model import NgramModel, Order
from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.output_file import OutputFiles

_LN10 = math.log(10.0)
_MOST = 1e30
_COUNT = re.compile(r"ngram\s+(\d{1,3})\s*=\s*(\d{1,18})\s*$")
_SECTION = re.compile(r"\\(\d{1,3})-grams:\s*$")


class _Reader:
    """Reads lines and knows where it is, for messages."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = 0

    def lines(self) -> Iterator[str]:
        """Yields the lines without their ends, empty ones left out."""
        for line in read_lines(self.path, "The language model"):
            self.number += 1
            if line and not line.isspace():
                yield line
        self.number += 1

    def error(self, what: str) -> DataError:
        """Returns the error that something is wrong in the current line."""
        return DataError(f"{self.path}, line {self.number}: {what}")


def read_arpa(path: str) -> NgramModel:
    """Reads a model.

    Raises:
      DataError: the file does not exist, or is no ARPA file; the message names the line.
    """
    reader = _Reader(path)
    lines = reader.lines()
    counts, line = _read_counts(reader, lines)
    # A line of an n-gram has four characters at least, and gzip's shortest code stands for a thousand.
    room = os.path.getsize(path) * (1032 if path.endswith(".gz") else 1) // 4
    if max(counts) > room:
        raise DataError(f"{path} announces {max(counts):,} n-grams of one length, more than it has room for.")
    words: dict[str, int] = {}
    # N-grams by their words' ids lead to their numbers; only the contexts of the next order are needed.
    orders: list[Order] = []
    contexts: dict[tuple[int, ...], int] = {}
    for n, count in enumerate(counts, 1):
        match = _SECTION.match(line)
        if match is None or int(match.group(1)) != n:
            raise reader.error(f"'\\{n}-grams:' is expected here, but it says {line[:60]!r}.")
        table = _read_section(reader, lines, n, count, words)
        orders.append(_sorted_order(reader, table, n, contexts, len(words), n == len(counts)))
        line = table.next_line
    if line.strip() != "\\end\\":
        raise reader.error(f"'\\end\\' is expected here, but it says {line[:60]!r}.")
    return NgramModel(list(words), orders)


def _read_counts(reader: _Reader, lines: Iterator[str]) -> tuple[list[int], str]:
    counts: list[int] = []
    for line in lines:  # what stands before \data\ is a comment
        if line.strip() == "\\data\\":
            break
    for line in lines:
        match = _COUNT.match(line.strip())
        if match is None:
            break
        if int(match.group(1)) != len(counts) + 1:
            raise reader.error(f"the counts of n-grams have to be in order, but it says {line!r}.")
        counts.append(int(match.group(2)))
    else:
        line = ""
    if not counts:
        raise reader.error("there is no part '\\data\\' with 'ngram 1=…': this is no ARPA file.")
    return counts, line


class _Table:
    """The rows of one section as they stand in the file."""

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
        fields = line.split()
        try:
            if not n + 1 <= len(fields) <= n + 2:
                raise ValueError
            table.log_probs[row] = _number(fields[0]) * _LN10
            if len(fields) == n + 2:
                table.backoffs[row] = _number(fields[-1]) * _LN10
        except ValueError:
            raise reader.error(f"a {n}-gram is a log probability, {n} word(s) and perhaps a weight, but it says "
                               f"{line[:60]!r}.") from None
        if n == 1:
            if words.setdefault(fields[1], row) != row:
                raise reader.error(f"the word {fields[1]!r} comes twice.")
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
    """Returns a number of the file; minus infinity may stand for a probability of 0."""
    number = float(text)
    if not number < _MOST:  # nor is NaN
        raise ValueError
    return max(number, -_MOST)


def _sorted_order(reader: _Reader, table: _Table, n: int, contexts: dict[tuple[int, ...], int], vocab_size: int,
                  is_last: bool) -> Order:
    """Sorts the n-grams by context and word; ``contexts`` afterwards holds the numbers of these."""
    ids = table.ids
    if n == 1:
        keys = ids[:, 0].astype(np.int64)
    else:
        try:
            numbers = [contexts[tuple(row)] for row in ids[:, :-1].tolist()]
        except KeyError as error:
            raise reader.error(f"a {n}-gram begins with words (ids {error}) that are no {n - 1}-gram.") from None
        keys = np.array(numbers, np.int64) * vocab_size + ids[:, -1]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    if (keys[1:] == keys[:-1]).any():
        raise reader.error(f"one of the {n}-grams above comes twice.")
    if not is_last:
        contexts.clear()
        contexts.update(zip(map(tuple, ids[order].tolist()), range(len(order)), strict=True))
    return Order(keys, table.log_probs[order], np.zeros_like(table.backoffs) if is_last else table.backoffs[order])


def write_arpa(path: str, model: NgramModel) -> None:
    """Writes a model, gzipped when the name ends in ``.gz``."""
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
