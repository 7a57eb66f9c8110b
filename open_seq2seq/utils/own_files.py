"""Reads files in folders that are not trusted: without following symbolic links or blocking, and within limits.

Cache files end with a checksum, so that damaged ones are detected and written again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import zlib
from io import BufferedReader
from pathlib import PurePosixPath
from typing import BinaryIO

from open_seq2seq.utils.posix import NO_LINKS


class NotOwnFileError(Exception):
    """A name in a folder is not a regular file of that folder; the message has the name and the reason."""


def without_links(path: str, flags: int) -> int:
    """Opener for ``open(…, opener=without_links)`` that does not follow a symbolic link or wait for a pipe.

    If a link were followed, opening for writing could overwrite a file elsewhere.
    """
    return os.open(path, flags | NO_LINKS, 0o666)


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
    parts = PurePosixPath(name).parts
    if not parts or parts[0] == "/" or ".." in parts or "\0" in name:
        raise NotOwnFileError(f"{name!r:.200} is a name that leads out of the folder")
    path = os.path.join(folder, *parts)
    if any(os.path.islink(os.path.join(folder, *parts[:count + 1])) for count in range(len(parts))):
        raise NotOwnFileError(f"{parts[-1]} is a link, or is reached through one")
    try:
        file = open(path, "rb", opener=without_links)  # noqa: SIM115 (it is returned)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.ENXIO):  # a folder, or a socket
            raise NotOwnFileError(f"{name} is not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise NotOwnFileError(f"{name} is not a regular file")
    return file


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


def sha256_of(file: BinaryIO) -> str:
    """Returns the SHA-256 checksum of an open file from its current position to its end."""
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # typeshed requires more methods


_CHECK_BYTES = 4


def sealed(content: bytes) -> bytes:
    """Returns the content followed by its CRC32, which readers of NumPy and HDF5 files ignore."""
    return content + zlib.crc32(content).to_bytes(_CHECK_BYTES, "little")


def read_sealed(path: str) -> bytes | None:
    """Returns the content of a sealed file, or None if its checksum does not match or it is not a regular file.

    Raises:
      OSError: the file is missing, is a symbolic link, or cannot be read.
    """
    with open(path, "rb", opener=without_links) as file:
        whole = file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    content = whole[:-_CHECK_BYTES]
    return content if content and sealed(content) == whole else None
