"""Data files that a user names: opened without waiting, read within limits, with errors that name file and line."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from io import BufferedReader
from typing import BinaryIO

from open_seq2seq.utils.errors import DataError

BOM = b"\xef\xbb\xbf"
"""The byte-order mark that some programs write at the beginning of UTF-8 files."""
MOST_LINE_BYTES = 1 << 24
"""Limit of a line: a few bytes of gzip can stand for one that does not fit into memory."""


def open_regular(path: str) -> BufferedReader:
    """Opens a file for reading. Links are followed; pipes and devices are refused and never waited for.

    Raises:
      OSError: it cannot be opened, or is no file; ``strerror`` says why.
    """
    try:
        _check_kind(os.stat(path).st_mode, path)
        # It may have been replaced since it was checked.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:  # NUL, or invalid characters
        raise FileNotFoundError(errno.ENOENT, "no file can have this name", path) from error
    try:
        _check_kind(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _check_kind(mode: int, path: str) -> None:
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", path)


@contextlib.contextmanager
def opened_data(path: str, what: str = "The file") -> Iterator[BinaryIO]:
    """Opens a data file for reading; every OSError within the context counts as an error of reading.

    Args:
      path: the file; see ``open_regular``.
      what: what it is, for messages.

    Raises:
      DataError: it is missing, no file, or cannot be read.
    """
    try:
        with open_regular(path) as file:
            yield file
    except FileNotFoundError as error:
        raise DataError(f"{what} {shown(path)} does not exist.") from error
    except OSError as error:
        raise DataError(f"{what} {shown(path)} cannot be read: {error.strerror or error}.") from error


def read_data(path: str, what: str = "The file", most_bytes: int = 1 << 30) -> bytes:
    """Returns the content of a file, which must fit into memory.

    Raises:
      DataError: it cannot be read, or has more than ``most_bytes``.
    """
    with opened_data(path, what) as file:
        content = file.read(most_bytes + 1) or b""
    if len(content) > most_bytes:
        raise DataError(f"{what} {shown(path)} has more than {most_bytes:,} bytes: name another file.")
    return content


def read_lines(path: str, what: str = "The file", unpack: bool = True) -> Iterator[str]:
    """Yields the lines of a UTF-8 text file without line ends (LF or CR LF), and without a byte-order mark.

    Args:
      path: the file.
      what: what it is, for messages.
      unpack: whether files whose name ends in ``.gz`` are unpacked.

    Raises:
      DataError: it is missing or not a file, not gzip although named ``.gz``, not UTF-8, or has a line that is too
        long.
    """
    with opened_data(path, what) as file:
        packed = unpack and path.endswith(".gz")
        lines = gzip.GzipFile(fileobj=file) if packed else file
        number, line = 0, b"\n"
        try:
            while line := lines.readline(MOST_LINE_BYTES + 1):
                number += 1
                yield _decoded(line.removeprefix(BOM) if number == 1 else line, path, number)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{what} {shown(path)} is not a whole gzip file: {str(error).rstrip('.')}.") from error


def _decoded(line: bytes, path: str, number: int) -> str:
    if len(line) > MOST_LINE_BYTES:
        raise too_long(path, number)
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise not_utf8(path, number) from error


def too_long(path: str, number: int) -> DataError:
    """Returns the error that a line, counted from 1, is too long."""
    return DataError(f"{shown(path)}:{number}: the line has more than {MOST_LINE_BYTES:,} bytes: this is no text file "
                     "of lines.")


def not_utf8(path: str, number: int) -> DataError:
    """Returns the error that a line, counted from 1, is not UTF-8."""
    return DataError(f"{shown(path)}:{number}: the line is not valid UTF-8: convert the file, for example by iconv.")


def shown(name: str) -> str:
    r"""Returns a file's name as text that can be printed in any encoding of Unicode.

    Bytes of a name that are not UTF-8, which Python keeps as lone surrogates, become ``\xe9`` and so on.
    """
    try:
        text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # other lone surrogates, from JSON for instance
        text = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return text.replace("\0", "\\x00")
