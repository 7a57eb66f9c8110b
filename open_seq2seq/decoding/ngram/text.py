"""Reads text for the estimation of language models: plain lines, or the transcripts of a manifest."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator

from open_seq2seq.utils.data_files import read_lines
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.unicode_text import composed

SPACE = "<space>"
CASES: dict[str, Callable[[str], str]] = {"as_is": str, "lower": str.lower, "upper": str.upper}


def read_transcripts(path: str) -> Iterator[str]:
    """Yields the lines of a text file or, of a ``.csv`` file, the last column without a header named ``transcript``.

    Raises:
      DataError: the file cannot be read, is not UTF-8, or is not a valid CSV file.
    """
    lines = read_lines(path)
    if not path.removesuffix(".gz").endswith(".csv"):
        yield from lines
        return
    try:
        rows = [row[-1] for row in csv.reader(line + "\n" for line in lines) if row]
    except csv.Error as error:
        raise DataError(f"{path} is not a valid CSV file: {error}.") from error
    yield from rows[1:] if rows and rows[0] == "transcript" else rows


def words_of_lines(lines: Iterable[str], case: str = "as_is") -> Iterator[list[str]]:
    """Yields the words of each line, in composed letters; ``case`` is ``as_is``, ``lower`` or ``upper``."""
    change = CASES[case]
    return (change(composed(line)).split() for line in lines)


def characters_of_lines(lines: Iterable[str], case: str = "as_is") -> Iterator[list[str]]:
    """Yields the characters of each line, in composed letters, with ``<space>`` between words."""
    return ([SPACE if c == " " else c for c in " ".join(words)] for words in words_of_lines(lines, case))
