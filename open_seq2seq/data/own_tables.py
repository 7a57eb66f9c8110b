"""Reads tables that users bring, in the form in which their programs wrote them: TSV, CSV or JSON lines.

Also what the scripts that prepare them share: rows that are left out, an option of columns, and what to do next.
"""

from __future__ import annotations

import argparse
import codecs
import csv
import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from open_seq2seq.data.tables import csv_rows
from open_seq2seq.utils.console import deco_print, format_count
from open_seq2seq.utils.data_files import opened_text, read_data, read_lines, shown
from open_seq2seq.utils.errors import DataError, did_you_mean
from open_seq2seq.utils.shipped import as_usable

Row = TypeVar("Row", bound=Any)
"""A row of a file, with the number of its line, from 1, as ``line``."""


@dataclass
class Kept(Generic[Row]):
    """Rows that are kept, and those that were left out.

    Attributes:
      rows: the rows for training and evaluation.
      dropped: dict of reason → rows that were left out.
    """

    rows: list[Row] = field(default_factory=list)
    dropped: dict[str, list[Row]] = field(default_factory=dict)

    def drop(self, row: Row, reason: str) -> None:
        """Records a row as left out."""
        self.dropped.setdefault(reason, []).append(row)

    def all_dropped(self) -> list[tuple[str, Row]]:
        """Returns (reason, row) of all rows that were left out, in the order of their lines."""
        dropped = [(reason, row) for reason, rows in self.dropped.items() for row in rows]
        return sorted(dropped, key=lambda pair: pair[1].line)

    def report(self, noun: str, path: str | None = None, place: Callable[[Row], str] | None = None) -> None:
        """Prints how many rows were left out and why.

        Args:
          noun: word for a row, in the singular, such as ``pair``.
          path: file in which these rows are listed, if there is one.
          place: function that returns where a row is, such as its file; by default its line.
        """
        if self.dropped:
            count = format_count(len(self.all_dropped()), noun)
            deco_print(f"Left out {count}" + (f", listed in {path} with line and reason:" if path else ":"))
        for reason, rows in self.dropped.items():
            first = min(rows, key=lambda row: row.line)
            where = f"line {first.line:,}" if place is None else place(first)
            deco_print(f"{len(rows):,} {reason} (first: {where})", offset=1)


def groups_in_common(keys: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Returns groups of the indices of examples, so that examples of different groups have no key in common.

    Args:
      keys: the keys of each example, such as its sentences.
    """
    parent = list(range(len(keys)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first: dict[Hashable, int] = {}
    for index, keys_of_row in enumerate(keys):
        for key in keys_of_row:
            parent[root(index)] = root(first.setdefault(key, index))
    groups: dict[int, list[int]] = {}
    for index in range(len(keys)):
        groups.setdefault(root(index), []).append(index)
    return list(groups.values())


def bare(text: str) -> str:
    """Returns a text without case, punctuation and white space; a text of punctuation alone is returned unchanged."""
    return "".join(char for char in text.casefold() if char.isalnum() or unicodedata.category(char)[0] == "M") or text


def tidied(text: str) -> str:
    """Returns a text with single spaces and composed letters (NFC)."""
    return " ".join(unicodedata.normalize("NFC", text).split())


JSON_SUFFIXES = (".jsonl", ".json", ".ndjson", ".manifest")
_MOST_BAD_ROWS = 0.05  # largest share of the rows that may lack a column
_SAMPLE = 1000  # number of lines with text from which the character between columns is found
_SEPARATED = {"\t": "tabs", ",": "commas", ";": "semicolons"}
# A value of a table with tabs, quoted or not, and the character after it.
_VALUE = re.compile(r'("[^"]*(?:""[^"]*)*"|[^"\t\n][^\t\n]*|)([\t\n])')

_SPECIAL = re.compile('[",;\\t\\n]')  # what makes programs put a value into quotes
_NUMBER = re.compile(r"[-+\d.,]+")

Rows = list[tuple[int, list[str]]]
"""Line number from 1 and values of each row."""


@dataclass(frozen=True)
class OwnTable:
    """A table in memory; ``read_own_table`` reads it.

    Attributes:
      path: the file.
      form: the file's format, in words.
      names: the values of the first row, which may be names of columns; of JSON lines, all keys.
      records: all rows, without the names of JSON lines.
      delimiter: the character between columns; None for JSON lines.
    """

    path: str
    form: str
    names: list[str]
    records: Rows
    delimiter: str | None

    def describe(self, columns: Sequence[int | str] = (), has_names: bool = False) -> str:
        """Returns what has been read, for the output of scripts: file, number of rows below the names, format.

        Args:
          columns: the columns that will be read; see ``rows``.
          has_names: whether the first row contains names although the columns are given by number.
        """
        records = self._below_names(has_names or self.has_names(columns))
        breaks = sum("\n" in value for _, cells in records for value in cells)
        return f"{shown(self.path)}: {format_count(len(records), 'row')}, {self.form}" + (
            f", {format_count(breaks, 'value')} with line breaks" if breaks else "")

    def has_names(self, columns: Sequence[int | str]) -> bool:
        """Returns whether the first row names the columns: the file is JSON lines, or a column is given by its name."""
        return self.delimiter is None or any(isinstance(column, str) for column in columns)

    def _below_names(self, named: bool) -> Rows:
        return self.records[1:] if named and self.delimiter else self.records

    def rows(self, columns: Sequence[int | str], has_names: bool = False, option: str = "--columns") -> Rows:
        """Returns the line numbers and the values of some columns; a row that lacks one of them has empty values.

        The number of rows that lack a column, or have too many because a separator within a value is not quoted, is
        printed.

        Args:
          columns: names from the first row, or numbers counted from 1.
          has_names: whether the first row contains names although the columns are given by number.
          option: the option that gives the columns, for messages.

        Raises:
          DataError: there is no such column or no row, or more than 5 % of the rows lack a column or have too many.
        """
        named = has_names or self.has_names(columns)
        records = self._below_names(named)
        indices = [self.place(column, option) for column in columns]
        if not records:
            raise DataError(f"{shown(self.path)} has no rows" + (" below its header." if named else "."))
        width = len(self.names) if named else Counter(len(cells) for _, cells in records).most_common(1)[0][0]
        longer = sum(len(cells) > width for _, cells in records)
        # Without names, many longer rows of a table with tabs have another column, not a tab in a value.
        has_more = not named and self.delimiter == "\t" and longer > _MOST_BAD_ROWS * len(records)
        most = None if has_more else width
        bad = [(line, len(cells)) for line, cells in records
               if len(cells) <= max(indices, default=0) or (most and len(cells) > most)]
        if bad:
            self._report(bad, len(records), max(indices) + 1, most, option)
        lines = {line for line, _ in bad}
        return [(line, [""] * len(indices) if line in lines else [cells[place] for place in indices])
                for line, cells in records]

    def place(self, column: int | str, option: str = "--columns", taken: Sequence[int | str] = ()) -> int:
        """Returns the index of a column.

        Args:
          column: its name, or its number from 1.
          option: the option that gives it, for messages.
          taken: columns of other options, which this one hardly means.

        Raises:
          DataError: no column has this name, or several have.
        """
        if isinstance(column, int) and (self.delimiter or column <= len(self.names)):
            return column - 1
        column = str(column)
        if column not in self.names:
            others = [name for name in self.names if name not in taken]
            raise DataError(f"{shown(self.path)}:1: there is no column named {column!r} for {option}: the columns are "
                            f"{', '.join(self.names)[:200]}.{did_you_mean(column, others)}")
        if self.names.count(column) > 1:
            raise DataError(f"{shown(self.path)}:1: the header has the column {column} more than once: remove or "
                            "rename the others.")
        return self.names.index(column)

    def _report(self, bad: Sequence[tuple[int, int]], count: int, needed: int, most: int | None, option: str) -> None:
        """Prints how many rows do not have the right number of columns; raises DataError if there are too many."""
        between = _SEPARATED[self.delimiter or "\t"]
        wanted = f"more or fewer than {needed} columns" if most == needed else (
            f"fewer than {needed} columns" + (f" or more than {most}" if most and most > needed else ""))
        words = (f"{len(bad):,} of the {count:,} lines of {shown(self.path)} have {wanted}, separated by {between} "
                 f"(first: line {bad[0][0]:,} has {bad[0][1]})")
        if len(bad) > _MOST_BAD_ROWS * count:
            remedy = "put exactly one tab between columns" if self.delimiter == "\t" else (
                f"put values that contain {between} into double quotes")
            raise DataError(f"{words}: {remedy}, or name the columns with {option}.")
        deco_print(f"WARNING: {words}.")


def column_of(text: str) -> int | str:
    """Returns the column that an option gives: its number from 1 if it is a number, otherwise its name."""
    return int(text) if text.isdecimal() else text


class TwoColumns(argparse.Action):
    """Reads an option whose ``nargs`` is ``"+"``: two columns, as two words or with a comma between them."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
                 option_string: str | None = None) -> None:
        convert = self.type if callable(self.type) else str
        is_one_word = len(values) == 1 and isinstance(values[0], str)
        columns = [convert(word) for word in values[0].split(",")] if is_one_word else values
        if len(columns) != 2:
            parser.error(f"{option_string} needs two columns, such as {option_string}=1,2, but got "
                         f"{','.join(map(str, columns))}")
        setattr(namespace, self.dest, columns)


def say_next(recipe: str, config: str, settings: Mapping[str, Any]) -> None:
    """Prints what to do with the prepared files.

    Args:
      recipe: the config that the user's own config is based on.
      config: name of the user's config.
      settings: variables of the recipe, and their values; several variables, in one string, have a tuple of values.
    """
    deco_print(f"Next: write {config}, with the lines")
    for names, value in {"base_config": recipe, **settings}.items():
        values = value if isinstance(value, tuple) else (value,)
        texts = [json.dumps(one, ensure_ascii=False) if isinstance(one, str) else repr(one) for one in values]
        deco_print(as_usable(f"{names} = {', '.join(texts)}"), offset=1)
    command = as_usable(f"python run.py --config_file={config} --mode=train_eval")
    deco_print(f"Then check it: {command} --check")
    deco_print(f"Then train: {command}")


def read_own_table(path: str) -> OwnTable:
    """Reads a table: JSON lines (by its suffix), otherwise columns separated by tabs, commas or semicolons.

    Values can be in double quotes. In a table with tabs, quotes belong to the text, unless the whole table shows that a
    program such as a spreadsheet has put them around values. Files can be gzipped, and UTF-16 with a byte-order mark.

    Raises:
      DataError: the file cannot be read, is empty, or is not valid.
    """
    lines = list(_lines(path))
    if not any(line.strip() for line in lines):
        raise DataError(f"The file {shown(path)} is empty.")
    if _plain_name(path).endswith(JSON_SUFFIXES):
        return _read_json(path, lines)
    delimiter = _delimiter(path, lines)
    if delimiter != "\t" or _is_quoted(lines):
        records = [(begin, cells) for begin, _, cells in csv_rows(path, lines, delimiter) if any(cells)]
        form = f"columns separated by {_SEPARATED[delimiter]}, values quoted where necessary"
    else:
        records = [(number, line.split("\t")) for number, line in enumerate(lines, 1) if line.strip()]
        form = "columns separated by tabs"
    if not records:
        raise DataError(f"The file {shown(path)} is empty.")
    return OwnTable(path, form, [cell.strip() for cell in records[0][1]], records, delimiter)


def _plain_name(path: str) -> str:
    return path.lower().removesuffix(".gz")


def _lines(path: str) -> Iterator[str]:
    with opened_text(path) as file:
        begin = file.read(2)
    if begin not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return read_lines(path)
    try:
        return iter(read_data(path, unpack=True).decode("utf-16").replace("\r\n", "\n").split("\n"))
    except UnicodeDecodeError as error:
        raise DataError(f"{shown(path)} begins like UTF-16, but is not valid: convert it to UTF-8.") from error


def _delimiter(path: str, lines: Sequence[str]) -> str:
    """Returns the character that splits most lines into the same number of columns."""
    sample = list(itertools.islice(filter(str.strip, lines), _SAMPLE))
    if not _plain_name(path).endswith(".csv") and any("\t" in line for line in sample):
        return "\t"
    shares = {delimiter: _regularity(sample, delimiter) for delimiter in _SEPARATED}
    best = max(shares, key=lambda delimiter: (shares[delimiter], delimiter == ","))
    return best if shares[best] else "," if _plain_name(path).endswith(".csv") else "\t"


def _regularity(lines: Sequence[str], delimiter: str) -> float:
    """Returns the share of rows that have the most frequent number of columns; 0 if that is a single column."""
    try:
        widths = Counter(len(cells) for cells in csv.reader(lines, delimiter=delimiter) if cells)
    except csv.Error:
        return 0.0
    (width, count), = widths.most_common(1)
    return count / sum(widths.values()) if width > 1 else 0.0


def _is_quoted(lines: Sequence[str]) -> bool:
    """Returns whether a program has put values of a table with tabs into double quotes, and doubled those in them.

    Quotes that people write around a sentence look the same. But a program doubles inner quotes, puts a value with a
    line break into quotes, and puts either all values or all those with commas into quotes.
    """
    if not any('"' in line for line in lines):
        return False
    rows = _raw_rows(lines)
    if rows is None:  # a row is not as programs write it: what most of the quoted values look like decides
        values = [value for line in lines for value in line.split("\t") if value.startswith('"')]
        return sum('""' in value[1:-1] and _VALUE.fullmatch(f"{value}\t") is not None for value in values) > len(
            values) / 2
    values = [value for row in rows for value in row if value]
    quoted = [value for value in values if value[0] == '"']
    others = [value for value in values if value[0] != '"' and not _NUMBER.fullmatch(value)]
    doubled = sum('""' in value[1:-1] for value in quoted)
    if doubled:
        unlike = sum('"' in value for value in others) + sum(not _SPECIAL.search(value[1:-1]) for value in quoted)
        return doubled > unlike or not others
    broken = {len(row) for row in rows if any("\n" in value for value in row)}
    if broken:
        whole = Counter(len(row) for row in rows if not any("\n" in value for value in row)).most_common(1)
        return len(broken) == 1 and all(count in broken for count, _ in whole)
    return bool(quoted) and (not others or (all("," in value for value in quoted)
                                            and not any("," in value for value in others)))


def _raw_rows(lines: Sequence[str]) -> list[list[str]] | None:
    """Returns the values of a table with tabs, with their quotes; None if text follows a closing quote."""
    text, place = "\n".join([*lines, ""]), 0
    rows: list[list[str]] = [[]]
    while place < len(text):
        match = _VALUE.match(text, place)
        if match is None:
            return None
        rows[-1].append(match[1])
        if match[2] == "\n":
            rows.append([])
        place = match.end()
    return rows[:-1]


def _read_json(path: str, lines: Sequence[str]) -> OwnTable:
    """Reads JSON lines, or one array of objects; the keys of objects in an object count as its own."""
    objects = list(_objects(path, lines))
    names = list(dict.fromkeys(name for _, row in objects for name in row))
    records = [(number, [_text(row.get(name)) for name in names]) for number, row in objects]
    return OwnTable(path, "JSON lines", names, records, None)


def _objects(path: str, lines: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    is_array = next(line for line in lines if line.strip()).lstrip().startswith("[")
    number = 1
    try:
        if is_array:
            objects = list(enumerate(json.loads("\n".join(lines)), 1))
        else:
            objects = []
            for number, line in enumerate(lines, 1):
                if line.strip():
                    objects.append((number, json.loads(line)))
    except (ValueError, RecursionError) as error:  # also raised for huge numbers and deep nesting
        number = getattr(error, "lineno", 1) if is_array else number
        raise DataError(f"{shown(path)}:{number}: the line is not valid JSON: {getattr(error, 'msg', error)}."
                        ) from error
    for number, row in objects:
        if not isinstance(row, dict):
            raise DataError(f"{shown(path)}:{number}: the line must be a JSON object, with the names of the columns as "
                            "keys.")
        inner = {key: value for part in row.values() if isinstance(part, dict) for key, value in part.items()}
        yield number, inner | row


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()  # half of a surrogate pair, where a text was cut, becomes "?"
