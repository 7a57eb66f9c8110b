"""Reads columns of text files with tab-separated or comma-separated values."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from open_seq2seq.config.params import Param
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError, did_you_mean

COLUMN = (int, str)
_IN_WORDS = {"tsv": "tabs", "csv": "commas"}


def table_params() -> dict[str, Any]:
    """Returns the parameters of data layers that read tables."""
    return {
        "format": Param([None, "tsv", "csv"], None, "Format of the file: tsv (columns separated by tabs, without "
                        "quoting) or csv (separated by commas, with values in double quotes where necessary). None "
                        "means csv for files named .csv or .csv.gz, and tsv otherwise."),
        "has_header": Param(bool, False, "Whether the first line of the file contains the names of the columns; "
                            "implied if a column is given by name."),
    }


@dataclass(frozen=True)
class Table:
    """A text file with columns.

    Attributes:
      path: UTF-8 file, optionally compressed (``.gz``).
      columns: the wanted columns: numbers, counted from 1, or names from the first line; [None] for whole lines.
      format: ``tsv``, ``csv``, or None to decide by the file's name.
      has_header: whether the first line contains names; implied by a column given by name.
      num_read: how many of the columns are read, the first ones; None for all. Inference reads no targets, but their
        names also imply a header.
    """

    path: str
    columns: Sequence[int | str | None]
    format: str | None = None
    has_header: bool = False
    num_read: int | None = None

    @property
    def kind(self) -> str:
        """Format of the file: ``tsv`` or ``csv``."""
        name = self.path.lower().removesuffix(".gz")
        return self.format or ("csv" if name.endswith(".csv") else "tsv")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yields (line number from 1, values of the columns that are read) for each row.

        A row of a CSV file may have several lines; its number is that of its last line.

        Raises:
          DataError: the file is missing, empty or not UTF-8, a row has too few columns, a name is not in the first
            line, quotes are not closed, or a value in a CSV file has more than 131,072 characters.
        """
        columns = list(self.columns[:self.num_read])
        if columns == [None]:
            yield from ((number, [line]) for number, line in enumerate(read_lines(self.path, "The file"), 1))
            return
        rows = self._split()
        header = self.has_header or any(isinstance(column, str) for column in self.columns)
        first = next(rows, None)
        if first is None:
            raise DataError(f"The file {shown(self.path)} is empty.")
        indices = [self._place(column, first[1]) for column in columns if column is not None]
        for number, cells in (rows if header else itertools.chain([first], rows)):
            if len(cells) <= max(indices, default=0):
                count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
                raise DataError(f"{shown(self.path)}:{number}: the line has only {count}, separated by "
                                f"{_IN_WORDS[self.kind]}, but column {max(indices) + 1} is needed: complete the line, "
                                "or correct the column or the format in the config.")
            yield number, [cells[place] for place in indices]

    def _split(self) -> Iterator[tuple[int, list[str]]]:
        lines = read_lines(self.path, "The file")
        if self.kind == "tsv":
            yield from ((number, line.split("\t")) for number, line in enumerate(lines, 1))
            return
        yield from ((last, cells) for _, last, cells in csv_rows(self.path, lines))

    def _place(self, column: int | str, first: list[str]) -> int:
        if isinstance(column, int):
            return column - 1
        names = [cell.strip() for cell in first]
        if column not in names:
            raise DataError(f"{shown(self.path)}:1: there is no column named '{column}': the first line must name the "
                            f"columns, but reads {', '.join(names)[:200]}.{did_you_mean(column, names)}")
        return names.index(column)


def csv_rows(path: str, lines: Iterable[str], delimiter: str = ",",
             quoting: Literal[0, 3] = csv.QUOTE_MINIMAL) -> Iterator[tuple[int, int, list[str]]]:
    """Yields (number of the first line from 1, number of the last line, values) for each row of a CSV file.

    Args:
      path: the file, for messages.
      lines: the lines of the file, without line ends.
      delimiter: the character between values.
      quoting: ``csv.QUOTE_NONE`` if quotes have no special meaning.

    Raises:
      DataError: a quote is not closed, a line contains a carriage return or other text after a closing quote, or a
        value has more than 131,072 characters.
    """
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter, quoting=quoting, strict=True)
    begin = 1
    try:
        for cells in reader:
            yield begin, reader.line_num, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        raise DataError(_not_csv(path, error, begin, reader.line_num)) from error


def _not_csv(path: str, error: csv.Error, begin: int, number: int) -> str:
    """Returns the message for an error found in line ``number``, in a row that begins in line ``begin``."""
    reason = str(error)
    if "field limit" in reason:
        return (f"{shown(path)}:{begin}: a value of the row that begins in this line has more than "
                f"{csv.field_size_limit():,} characters: shorten it or, if a quote is not closed, close it.")
    if "unexpected end" in reason:
        return (f"{shown(path)}:{begin}: the row that begins in this line has a double quote that is not closed: close "
                "it, or write it as two double quotes within a quoted value.")
    if "new-line" in reason:
        return (f"{shown(path)}:{number}: the line contains a carriage return: save the file with the line ends of "
                "Unix or Windows.")
    return (f"{shown(path)}:{number}: the line is not valid CSV ({error}): enclose values with commas or "
            "quotes in double quotes, and double the quotes in them.")


def column_problems(path: str, columns: dict[str, int | str | None]) -> list[str]:
    """Returns a message for each column number below 1, and for each pair of parameters that name the same column.

    Args:
      path: path of the parameters in the config, for messages.
      columns: dict of parameter → column; None is ignored.
    """
    problems = [f"'{path}/{name}' is {column}, but columns are counted from 1." for name, column in columns.items()
                if isinstance(column, int) and column < 1]
    for (one, first), (other, second) in itertools.combinations(columns.items(), 2):
        if first is not None and first == second:
            problems.append(f"'{path}/{one}' and '{path}/{other}' are both {first!r}, but must be different columns.")
    return problems
