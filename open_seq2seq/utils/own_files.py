"""Files of a folder that may come from a stranger: read without following links, without waiting, and within limits."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path, PurePosixPath


class NotOwnFileError(Exception):
    """A name in a folder is not a regular file of that folder; the text says which name, and what it is."""


def open_own(folder: str | os.PathLike[str], name: str) -> BufferedReader:
    """Opens a file below a folder for reading.

    The path of the folder may contain links; below the folder none is followed.

    Args:
      folder: the folder.
      name: path below it, with slashes.

    Raises:
      NotOwnFileError: a name that leaves the folder, a link, or not a regular file, such as a pipe.
      OSError: it is missing, or cannot be read.
    """
    parts = _parts(name)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = _open_at(place, part, os.O_DIRECTORY, Path(folder, name))
            os.close(place)
            place = inner
        # An ordinary open would wait for the writer of a pipe.
        descriptor = _open_at(place, parts[-1], os.O_NONBLOCK, Path(folder, name))
    finally:
        os.close(place)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotOwnFileError(f"{name} is no file")
    return os.fdopen(descriptor, "rb")


def without_links(path: str, flags: int) -> int:
    """Opens a file for ``open(…, opener=without_links)``: without following a link, or waiting for a pipe.

    Following a link could write to another file.
    """
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def read_own(folder: str | os.PathLike[str], name: str, most_bytes: int) -> bytes:
    """Returns the content of a small file below a folder.

    Raises:
      NotOwnFileError: see ``open_own``; or it has more than ``most_bytes``.
      OSError: it is missing, or cannot be read.
    """
    with open_own(folder, name) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise NotOwnFileError(f"{name} has more than {most_bytes:,} bytes")
    return content


def _parts(name: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
        raise NotOwnFileError(f"{name!r:.200} is a name that leaves the folder")
    return path.parts


def _open_at(place: int, name: str, flags: int, path: Path) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=place)
    except OSError as error:
        # On Linux a link gives ELOOP, and a link instead of a folder ENOTDIR.
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            raise NotOwnFileError(f"{path.name} is a link, or is reached by one") from error
        if error.errno == errno.ENXIO:
            raise NotOwnFileError(f"{path.name} is no file") from error
        error.filename = str(path)
        raise
