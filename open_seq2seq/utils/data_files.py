"""Opens data files without waiting and limits how much is read; errors name the file and the line."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from io import BufferedReader
from typing import BinaryIO, cast

from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.posix import AT_ONCE

_MOST_DIGITS = 15

BOM = b"\xef\xbb\xbf"
"""The byte-order mark that some programs write at the beginning of UTF-8 files."""
_GZIP = b"\x1f\x8b"
MOST_LINE_BYTES = 1 << 24
"""Maximum length of a line in bytes, because a small gzip file can expand to a line that does not fit in memory."""


def open_regular(path: str) -> BufferedReader:
    """Opens a regular file for reading. Follows symbolic links; refuses pipes and devices without waiting for them.

    Raises:
      OSError: the file cannot be opened, or is not a regular file; ``strerror`` gives the reason.
    """
    try:
        _check_kind(os.stat(path).st_mode, path)
        # The file may have been replaced since the check, so the open must not block.
        descriptor = os.open(path, os.O_RDONLY | AT_ONCE)
    except ValueError as error:  # the name contains NUL, or a character that cannot be encoded
        raise FileNotFoundError(errno.ENOENT, "this is not a valid file name", path) from error
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
    """Context manager that opens a data file for reading and converts every OSError within it to a DataError.

    Args:
      path: the file; see ``open_regular``.
      what: what the file is, for messages.

    Raises:
      DataError: the file is missing, is not a regular file, or cannot be read.
    """
    try:
        with open_regular(path) as file:
            yield file
    except FileNotFoundError as error:
        raise DataError(f"{what} {shown(path)} does not exist.") from error
    except OSError as error:
        raise DataError(f"{what} {shown(path)} cannot be read: {error.strerror or error}.") from error


@contextlib.contextmanager
def opened_text(path: str, what: str = "The file") -> Iterator[BinaryIO]:
    """Context manager that opens a file of text, plain or compressed by gzip, for reading its uncompressed bytes.

    Args:
      path: the file; see ``opened_data``.
      what: what the file is, for messages.

    Raises:
      DataError: the file cannot be read, or is not valid gzip although it looks like it.
    """
    with opened_data(path, what) as file:
        try:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if is_packed(path, file) else file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{what} {shown(path)} is not a valid gzip file: {str(error).rstrip('.')}.") from error


def is_packed(path: str, file: BinaryIO) -> bool:
    """Returns whether a file is compressed by gzip, by its name or its first bytes, with which UTF-8 cannot begin."""
    return path.endswith(".gz") or (isinstance(file, BufferedReader) and file.peek(2)[:2] == _GZIP)


def read_data(path: str, what: str = "The file", most_bytes: int = 1 << 30, unpack: bool = False) -> bytes:
    """Returns the content of a file.

    Args:
      path: the file.
      what: what the file is, for messages.
      most_bytes: maximum size of the content.
      unpack: whether to return the uncompressed content of a file that is compressed by gzip.

    Raises:
      DataError: the file cannot be read, or has more than ``most_bytes``.
    """
    with (opened_text if unpack else opened_data)(path, what) as file:
        content = file.read(most_bytes + 1) or b""
    if len(content) > most_bytes:
        raise DataError(f"{what} {shown(path)} has more than {most_bytes:,} bytes: give a smaller file"
                        f"{', or the unpacked one' if unpack else ''}.")
    return content


def is_count(text: str) -> bool:
    """Returns whether a text is a whole number of at most 15 digits, which fits into an int64 even after additions."""
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def read_lines(path: str, what: str = "The file") -> Iterator[str]:
    """Yields the lines of a UTF-8 text file without line endings (LF or CR LF) and without a byte-order mark.

    Args:
      path: the file, plain or compressed; see ``opened_text``.
      what: what the file is, for messages.

    Raises:
      DataError: the file cannot be opened, is not gzip although named ``.gz``, is not UTF-8, or has a line that is too
        long.
    """
    with opened_text(path, what) as file:
        for number, line in enumerate(iter(lambda: file.readline(MOST_LINE_BYTES + 1), b""), 1):
            yield decoded_line(line, path, number)


def decoded_line(line: bytes, path: str, number: int) -> str:
    """Returns a line of a UTF-8 text file without its ending, and the first one without a byte-order mark.

    Args:
      line: the line.
      path: the file, for messages.
      number: number of the line, from 1.

    Raises:
      DataError: the line is not UTF-8, or too long.
    """
    if len(line) > MOST_LINE_BYTES:
        raise too_long(path, number)
    try:
        return (line.removeprefix(BOM) if number == 1 else line).decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise not_utf8(path, number) from error


def too_long(path: str, number: int) -> DataError:
    """Returns the error for a line that is too long; lines are numbered from 1."""
    return DataError(f"{shown(path)}:{number}: the line has more than {MOST_LINE_BYTES:,} bytes: name a text file, and "
                     "break longer lines, for example with fold -s.")


def not_utf8(path: str, number: int) -> DataError:
    """Returns the error for a line that is not UTF-8; lines are numbered from 1."""
    return DataError(f"{shown(path)}:{number}: the line is not valid UTF-8. Convert the file, for example with iconv.")


NAMES_OF_COPIES: dict[str, str] = {}
"""Path of a temporary copy → name of what has been copied, such as standard input, for messages and results."""


def shown(name: str) -> str:
    r"""Returns a file name as text that can be printed in every Unicode encoding.

    Bytes that are not UTF-8, which Python represents by lone surrogates, are escaped, for example as ``\xe9``. A copy
    in ``NAMES_OF_COPIES`` gets the name of the original.
    """
    name = NAMES_OF_COPIES.get(name, name)
    try:
        text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # other lone surrogates, for example from JSON
        text = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return text.replace("\0", "\\x00")
