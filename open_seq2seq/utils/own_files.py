"""Reads files in folders that are not trusted: without following symbolic links or blocking, and within limits."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path, PurePosixPath


class NotOwnFileError(Exception):
    """A name in a folder is not a regular file of that folder; the message has the name and the reason."""


def open_own(folder: str | os.PathLike[str], name: str) -> BufferedReader:
    """Opens a file below a folder for reading.

    The path of the folder may contain symbolic links; below the folder no links are followed.

    Args:
      folder: the folder.
      name: path relative to the folder, with slashes.

    Raises:
      NotOwnFileError: the name leads out of the folder, through a link, or to something other than a regular file.
      OSError: the file is missing, or cannot be read.
    """
    parts = _parts(name)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = _open_at(place, part, os.O_DIRECTORY, Path(folder, name))
            os.close(place)
            place = inner
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        descriptor = _open_at(place, parts[-1], os.O_NONBLOCK, Path(folder, name))
    finally:
        os.close(place)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotOwnFileError(f"{name} is not a regular file")
    return os.fdopen(descriptor, "rb")


def without_links(path: str, flags: int) -> int:
    """Opener for ``open(…, opener=without_links)`` that does not follow a symbolic link or wait for a pipe.

    If a link were followed, opening for writing could overwrite a file elsewhere.
    """
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def read_own(folder: str | os.PathLike[str], name: str, most_bytes: int) -> bytes:
    """Returns the content of a small file below a folder.

    Raises:
      NotOwnFileError: see ``open_own``; or the file has more than ``most_bytes`` bytes.
      OSError: the file is missing, or cannot be read.
    """
    with open_own(folder, name) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise NotOwnFileError(f"{name} has more than {most_bytes:,} bytes")
    return content


def _parts(name: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
        raise NotOwnFileError(f"{name!r:.200} is a name that leads out of the folder")
    return path.parts


def _open_at(place: int, name: str, flags: int, path: Path) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=place)
    except OSError as error:
        # On Linux, opening a link fails with ELOOP, and opening a link as a folder fails with ENOTDIR. FreeBSD reports
        # EMLINK.
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            raise NotOwnFileError(f"{path.name} is a link, or is reached through one") from error
        if error.errno == errno.ENXIO:
            raise NotOwnFileError(f"{path.name} is not a regular file") from error
        error.filename = str(path)
        raise
