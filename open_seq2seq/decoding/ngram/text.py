"""Reads text for the estimation of language models: plain lines, or the transcripts of a manifest."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.unicode_text import composed

SPACE = "<space>"
_COLUMNS = ("transcript", "sentence", "text")
CASES: dict[str, Callable[[str], str]] = {"as_is": str, "lower": str.lower, "upper": str.upper}


def read_transcripts(path: str) -> Iterator[str]:
    """Yields the lines of a text file or, if its name says that it is a list of recordings, their transcripts.

    Of a ``.csv`` or ``.tsv`` file, these are the column ``transcript`` (or ``sentence`` or ``text``); without such a
    header the last column, with a message. Of a ``.json``, ``.jsonl`` or ``.manifest`` file, they are ``text`` of each
    line, and of LibriSpeech's ``.trans.txt`` what follows the name of the recording. All can end in ``.gz``.

    Raises:
      DataError: the file cannot be read, is not UTF-8, or is not valid CSV or JSON.
    """
    lines, name = read_lines(path), path.removesuffix(".gz").lower()
    if name.endswith((".json", ".jsonl", ".manifest")):
        yield from _json_texts(path, lines)
    elif name.endswith((".csv", ".tsv")):
        yield from _column(path, lines, name.endswith(".tsv"))
    elif name.endswith(".trans.txt"):
        yield from (line.strip().partition(" ")[2] for line in lines)
    else:
        yield from lines


def _json_texts(path: str, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            text = json.loads(line).get("text")
        except (ValueError, RecursionError, AttributeError) as error:
            raise DataError(f"{shown(path)}:{number}: the line must be a JSON object with the key 'text'.") from error
        if not isinstance(text, (str, type(None))):
            raise DataError(f"{shown(path)}:{number}: 'text' must be a string, got {json.dumps(text)[:40]}.")
        yield text or ""


def _column(path: str, lines: Iterator[str], is_tsv: bool) -> Iterator[str]:
    first = next(lines, "")
    has_tabs = "\t" in first and (is_tsv or not set(_COLUMNS).isdisjoint(map(str.strip, first.split("\t"))))
    form: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if has_tabs else {}
    reader = csv.reader((line + "\n" for line in itertools.chain([first], lines)), **form)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        column = next((header.index(name) for name in _COLUMNS if name in header), None)
        if column is None and header:
            if len(header) > 1:
                deco_print(f"{shown(path)} has no column named {_COLUMNS[0]}: its last column is used, such as "
                           f"{header[-1][:40]!r}.")
            yield header[-1]
        for row in filter(None, reader):
            if len(row) <= (column or 0):
                raise DataError(f"{shown(path)}:{reader.line_num}: the row has {len(row)} columns, but the header has "
                                f"{len(header)}.")
            yield row[-1 if column is None else column]
    except csv.Error as error:
        raise DataError(f"{shown(path)} is not a valid CSV file: {error}.") from error


def words_of_lines(lines: Iterable[str], case: str = "as_is") -> Iterator[list[str]]:
    """Yields the words of each line, in composed letters; ``case`` is ``as_is``, ``lower`` or ``upper``."""
    change = CASES[case]
    return (change(composed(line)).split() for line in lines)


def characters_of_lines(lines: Iterable[str], case: str = "as_is") -> Iterator[list[str]]:
    """Yields the characters of each line, in composed letters, with ``<space>`` between words."""
    return ([SPACE if c == " " else c for c in " ".join(words)] for words in words_of_lines(lines, case))
