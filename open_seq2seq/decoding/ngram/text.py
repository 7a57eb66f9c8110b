"""Text that language models are estimated from: plain lines, or the transcripts of a manifest."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator

from open_seq2seq.decoding.ngram.arpa import open_text
from open_seq2seq.utils.errors import DataError

SPACE = "<space>"


def read_transcripts(path: str) -> Iterator[str]:
    """Yields the lines of a text, or the last column of a ``.csv`` (without a header ``…,transcript``).

    Raises:
      DataError: the file cannot be read, or is not UTF-8.
    """
    try:
        with open_text(path) as stream:
            if path.removesuffix(".gz").endswith(".csv"):
                rows = [row[-1] for row in csv.reader(stream) if row]
                yield from rows[1:] if rows and rows[0] == "transcript" else rows
            else:
                yield from (line.rstrip("\n") for line in stream)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8: {error}.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        why = str(error).rstrip(".")
        raise DataError(f"{path} is not whole gzip, although its name ends in .gz: {why}.") from error
    except csv.Error as error:
        raise DataError(f"{path} is no CSV: {error}.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def words_of_lines(lines: Iterable[str], case: str = "as_is") -> Iterator[list[str]]:
    """Yields the words of each line; ``case`` is ``as_is``, ``lower`` or ``upper``."""
    change = _CASES[case]
    return (change(line).split() for line in lines)


def characters_of_lines(lines: Iterable[str], case: str = "as_is") -> Iterator[list[str]]:
    """Yields the characters of each line, with ``<space>`` between words."""
    change = _CASES[case]
    return ([SPACE if c == " " else c for c in " ".join(change(line).split())] for line in lines)


_CASES: dict[str, Callable[[str], str]] = {"as_is": str, "lower": str.lower, "upper": str.upper}
