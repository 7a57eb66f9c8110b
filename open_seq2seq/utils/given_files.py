"""Files that a user gives by name, standard input among them."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from open_seq2seq.utils.errors import DataError, UserError

STANDARD_INPUT = "-"
_BOM = b"\xef\xbb\xbf"


def check_given(files: Sequence[str], flag: str = "--infer_files") -> None:
    """Raises UserError when a file that a flag names does not exist, or standard input comes twice."""
    missing = [name for name in files if name != STANDARD_INPUT and not os.path.exists(name)]
    if missing:
        raise UserError(f"{flag} names {missing[0]}, which does not exist.")
    if list(files).count(STANDARD_INPUT) > 1:
        raise UserError(f"{flag} names standard input (-) twice, but it can be read but once.")


@functools.cache
def temporary_folder() -> str:
    """Returns a folder that lives as long as the process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def spooled_input(name: str, flag: str = "--infer_files") -> str:
    """Puts what comes by standard input into a file that lives as long as the process; returns its path.

    Args:
      name: of the file.
      flag: that asked for it, for messages.

    Raises:
      UserError: nothing came.
    """
    content = sys.stdin.buffer.read()
    if not content:
        raise UserError(f"{flag} - reads from standard input, but nothing came.")
    path = os.path.join(tempfile.mkdtemp(dir=temporary_folder()), name)
    Path(path).write_bytes(content)
    return path


def one_text(files: Sequence[str], flag: str = "--infer_files") -> str:
    """Returns a text file with the lines of text files, one after another: the file itself where there is one.

    Args:
      files: paths; ``-`` is standard input.
      flag: that named them, for messages.

    Raises:
      UserError: a folder or a device, or nothing came by standard input.
      DataError: one of several files is empty, or not UTF-8.
    """
    folders = [name for name in files if os.path.isdir(name)]
    if folders:
        raise UserError(f"{flag} names {folders[0]}, which is a folder: name text files, one sentence a line.")
    devices = [name for name in files if name != STANDARD_INPUT and _is_device(name)]
    if devices:
        raise UserError(f"{flag} names {devices[0]}, which is a device: name text files, one sentence a line.")
    paths = [spooled_input("standard-input.txt", flag) if name == STANDARD_INPUT else name for name in files]
    if len(paths) == 1 and os.path.isfile(paths[0]):
        return paths[0]  # a pipe can be read but once
    target = os.path.join(tempfile.mkdtemp(dir=temporary_folder()), "given-files.txt")
    with open(target, "wb") as out:
        for name, path in zip(files, paths, strict=True):
            _append(out, name, path)
    return target


def _is_device(name: str) -> bool:
    """Whether it is one that may go on without end, as a terminal does not."""
    if not stat.S_ISCHR(os.stat(name).st_mode):
        return False
    with open(name, "rb", buffering=0) as file:
        return not file.isatty()


def _append(out: BinaryIO, name: str, path: str) -> None:
    """Copies a file's lines; mistakes in it are found here, where its name is still known."""
    line = b""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            text = line.removeprefix(_BOM) if number == 1 else line
            try:
                text.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(f"{name}:{number}: the line is not valid UTF-8: convert the file, for example by "
                                "iconv.") from error
            out.write(text)
    if not line:
        raise DataError(f"The text file {name} is empty.")
    if not line.endswith(b"\n"):
        out.write(b"\n")
