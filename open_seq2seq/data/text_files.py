"""Writes text files: lines, and tables."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from open_seq2seq.utils.output_file import OutputFiles


@contextlib.contextmanager
def writing(path: str) -> Iterator[IO[bytes]]:
    """Opens a file for writing that appears under its name only once complete; creates its folder if necessary."""
    with OutputFiles() as outputs:
        yield outputs.open(path, "wb")


def write_lines(path: str, lines: Iterable[str]) -> int:
    """Writes lines to a UTF-8 text file and returns the number of lines."""
    count = 0
    with writing(path) as file:
        for line in lines:
            file.write(line.encode("utf-8") + b"\n")
            count += 1
    return count


def write_csv(path: str, header: Sequence[str], rows: Iterable[Sequence[str | int]]) -> int:
    """Writes a CSV file with the names of its columns, and returns the number of lines after the header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return write_lines(path, text.getvalue().split("\n")[:-1]) - 1
