"""Input files given on the command line, including standard input."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from open_seq2seq.utils import disk
from open_seq2seq.utils.data_files import MOST_LINE_BYTES, NAMES_OF_COPIES, decoded_line, read_lines, shown, too_long
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.posix import AT_ONCE

STANDARD_INPUT = "-"
_NAME_OF_INPUT = "standard input"
_BLOCK_BYTES = 1 << 16
_PATIENCE = 5.0
"""Seconds within which another process must open a named pipe for writing."""


def check_given(files: Sequence[str]) -> None:
    """Raises UserError if the files of the user contain one that does not exist, or standard input more than once."""
    missing = [name for name in files if name != STANDARD_INPUT and not os.path.exists(name)]
    if missing:
        raise UserError(f"One of the files is {shown(missing[0])}, which does not exist: check the path.")
    if list(files).count(STANDARD_INPUT) > 1:
        raise UserError("Standard input (-) was given twice, but it can be read only once: remove one.")


def spooled_input(name: str) -> str:
    """Copies standard input to a file that is removed when the process ends; returns the file's path.

    Args:
      name: file name of the copy.

    Raises:
      UserError: standard input is closed, a device, or empty.
    """
    if sys.stdin is None or _is_device(sys.stdin.buffer):
        raise UserError("--infer_files - reads from standard input, but standard input is closed or a device: redirect "
                        "a file to it, or give the file's name.")
    path = _new_name(name, _NAME_OF_INPUT)
    with open(path, "xb") as out:
        shutil.copyfileobj(sys.stdin.buffer, out)
        if not out.tell():
            raise UserError("--infer_files - reads from standard input, but standard input is empty: check the file or "
                            "the command that it comes from.")
    return path


def is_live_input() -> bool:
    """Returns whether standard input is a pipe, a socket or a terminal, whose lines may arrive one at a time."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # standard input is closed or has no file descriptor
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and sys.stdin.isatty())


def arriving_lines(most: int) -> Iterator[list[str]]:
    """Yields lists of the lines of standard input that have arrived, as soon as there is at least one.

    Lines end with a line feed or with a carriage return and a line feed, which are removed.

    Args:
      most: maximum number of lines in a list.

    Raises:
      DataError: a line is not UTF-8 or too long.
    """
    name, number, rest, ended = _NAME_OF_INPUT, 0, b"", False
    descriptor = sys.stdin.fileno()
    while not ended:
        lines: list[bytes] = []
        while not ended and (not lines or (len(lines) < most and select.select([descriptor], [], [], 0)[0])):
            block = os.read(descriptor, _BLOCK_BYTES)
            ended = not block
            *more, rest = (rest + block).split(b"\n")
            lines += more
            if len(rest) > MOST_LINE_BYTES:
                raise too_long(name, number + len(lines) + 1)
        if ended and rest:
            lines.append(rest)
        for start in range(0, len(lines), most):
            yield [decoded_line(line, name, place)
                   for place, line in enumerate(lines[start:start + most], number + start + 1)]
        number += len(lines)


def _new_name(name: str, original: str) -> str:
    """Returns a path for a copy of ``original``, in a folder that is removed when the process ends."""
    path = os.path.join(tempfile.mkdtemp(dir=disk.process_folder()), name)
    NAMES_OF_COPIES[path] = original
    return path


def _is_device(stream: BinaryIO) -> bool:
    """Returns whether a stream is a device other than a terminal; such a device may never end, like ``/dev/zero``."""
    with contextlib.suppress(OSError, ValueError):  # the stream has no file descriptor
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode) and not os.isatty(stream.fileno())
    return False


def one_text(files: Sequence[str]) -> str:
    """Returns the path of a text file with the lines of all given text files.

    A single regular file is returned as it is; otherwise the lines are copied to a new file, which is removed when the
    process ends.

    Args:
      files: paths; ``-`` is standard input.

    Raises:
      UserError: a file is a folder, or standard input is closed, a device or empty.
      DataError: no process opens a named pipe for writing; or several files are given, and one of them cannot be read,
        is empty, is not UTF-8, or has a line that is too long.
    """
    folders = [name for name in files if os.path.isdir(name)]
    if folders:
        raise UserError(f"One of the files is {shown(folders[0])}, which is a folder: give text files, one sentence "
                        "per line.")
    paths = [spooled_input("standard-input.txt") if name == STANDARD_INPUT else
             _spooled_pipe(name) if stat.S_ISFIFO(os.stat(name).st_mode) else name for name in files]
    if len(paths) == 1:
        return paths[0]
    target = _new_name("given-files.txt", " + ".join(map(shown, paths)))
    with open(target, "x", encoding="utf-8") as out:
        for path in paths:  # line by line, so that messages name this file instead of the combined one
            before = out.tell()
            out.writelines(f"{line}\n" for line in read_lines(path, "The text file"))
            if out.tell() == before:
                raise DataError(f"The text file {shown(path)} is empty: check or remove it.")
    return target


def given_texts(words: Sequence[str]) -> list[str]:
    """Returns the paths of text files for words of the command line that are files, ``-`` or texts.

    A word that is neither ``-`` nor the name of an existing file is a text. It is written to a file that is removed
    when the process ends.

    Raises:
      UserError: a text is not UTF-8.
    """
    paths = []
    for word in words:
        if word != STANDARD_INPUT and not os.path.exists(word):
            path = _new_name("text.txt", "the text on the command line")
            try:
                content = f"{word}\n".encode()
            except UnicodeEncodeError as error:
                raise UserError(f"The text {shown(word)} on the command line is not UTF-8: set the terminal to UTF-8, "
                                "or give a file with the text.") from error
            with open(path, "xb") as out:
                out.write(content)
            word = path
        paths.append(word)
    return paths


def _spooled_pipe(name: str) -> str:
    """Copies a named pipe, such as that of the shell's ``<(command)``, to a file; returns the file's path.

    Raises:
      DataError: no process opens the pipe for writing within a few seconds.
    """
    path = _new_name("pipe.txt", name)
    descriptor = os.open(name, os.O_RDONLY | AT_ONCE)
    with open(descriptor, "rb", buffering=0) as pipe, open(path, "xb") as out:
        if not select.select([pipe], [], [], _PATIENCE)[0]:
            first = pipe.read(1)  # None: a process has opened the pipe, but has not written yet
            if first == b"":
                raise DataError(f"{shown(name)} is a pipe to which no process writes: start the process that writes "
                                "to it, or give a file.")
            out.write(first or b"")
        os.set_blocking(descriptor, True)
        shutil.copyfileobj(pipe, out)
    return path
