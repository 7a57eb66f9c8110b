"""Files that get their names when they are whole, and locks."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

LINK = "there is a link in its place, through which nothing is written"
NO_FILE = "what is in its place is no file"
FOREIGN = "there is a file in its place that no run made; it is left alone"

TEMPORARY = ".tmp-"
"""What names of unfinished files and folders begin with."""
_LONGEST_ENDING = 20
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

StrPath = str | os.PathLike[str]
IsOwn = Callable[[BinaryIO], bool]
"""Tells by the content of a regular file whether this package has made it."""


class ForeignError(OSError):
    """What stands in the way was not made by this package: nothing is written, and ``strerror`` says what it is."""

    def __init__(self, path: StrPath, what: str) -> None:
        super().__init__(errno.EEXIST, what, os.fspath(path))


def always(file: BinaryIO) -> bool:
    """An ``IsOwn`` of files that are known by their names.

    For caches, whose names hold a checksum that nobody else makes (a damaged one must be made anew), and for results,
    whose names the user gives.
    """
    return True


@contextlib.contextmanager
def placing(path: StrPath, is_own: IsOwn, durable: bool = False) -> Iterator[Path]:
    """Gives a new, empty file beside ``path``, which gets that name when the context is left; an error removes it.

    Its name ends as the other does, by which some libraries choose a format.

    Args:
      path: no link is followed in its last part; a file there is replaced in one step, never changed.
      is_own: whether the file that is there now may be replaced.
      durable: whether it is synced to disk first.

    Raises:
      ForeignError: ``path`` is a link, no file, or no file of this package.
      OSError: it cannot be written.
    """
    path = os.fspath(path)
    check_replaceable(path, is_own)
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f"{TEMPORARY}{secrets.token_hex(8)}{os.path.splitext(name)[1][:_LONGEST_ENDING]}")
    os.close(os.open(temporary, os.O_WRONLY | _NEW, 0o666))
    try:
        yield Path(temporary)
        if durable:
            sync(temporary)
        check_replaceable(path, is_own)
        os.replace(temporary, path)
        if durable:
            sync_entries(folder or ".")
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


@contextlib.contextmanager
def writing(path: StrPath, is_own: IsOwn, durable: bool = False) -> Iterator[BinaryIO]:
    """Opens a file for writing bytes, which gets its name when the context is left; see ``placing``."""
    with placing(path, is_own, durable) as temporary, open(temporary, "r+b") as file:
        yield file


def new_file(path: StrPath, mode: str = "xb", **how: Any) -> Any:
    """Opens a file that is not there yet for writing.

    Args:
      path: its name.
      mode: ``xb`` for bytes, ``x`` for text.
      how: as the function ``open`` has it; text is UTF-8 by default.

    Raises:
      FileExistsError: something has the name.
    """
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, opener=_exclusively, encoding=encoding, **how)


def open_stream(target: str | int, mode: str, **how: Any) -> IO[Any]:
    """Opens what passes on whatever is written to it at once: a pipe, a terminal, ``/dev/null``, or a descriptor.

    Raises:
      ForeignError: it is a file, whose content would be lost.
    """
    def unchanged(path: str, flags: int) -> int:
        return os.open(path, flags & ~(os.O_TRUNC | os.O_CREAT))

    file = open(target, mode, opener=None if isinstance(target, int) else unchanged, **how)
    if isinstance(target, str) and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ForeignError(target, FOREIGN)
    return file


def write_new(path: StrPath, content: bytes | str) -> None:
    """Writes a file that is not there yet; text as UTF-8."""
    with new_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def copy_new(source: StrPath, target: StrPath) -> str:
    """Copies a file to one that is not there yet; returns the content's SHA-256."""
    with open(source, "rb") as file, new_file(target) as out:
        shutil.copyfileobj(file, out, 1 << 20)
    with open(target, "rb") as copy:
        return checksum_of(copy)


def checksum_of(file: BinaryIO) -> str:
    """Returns the SHA-256 of an open file, from where it stands."""
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # (typeshed wants a protocol)


@functools.cache
def process_folder() -> str:
    """Returns a temporary folder that lives as long as the process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def check_replaceable(path: StrPath, is_own: IsOwn) -> None:
    """Raises ForeignError unless there is nothing at a place, or a regular file that ``is_own`` knows."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise ForeignError(path, LINK if stat.S_ISLNK(mode) else NO_FILE)
    if is_own is always:
        return
    with open(path, "rb", opener=_unfollowed) as file:
        if not is_own(file):
            raise ForeignError(path, FOREIGN)


def open_lock(path: StrPath, is_own: IsOwn) -> IO[bytes]:
    """Opens a file that processes lock, made where there is none. Its content is not touched.

    Raises:
      ForeignError: it is a link, no file, has another name elsewhere, or another content than a lock has.
      OSError: it cannot be opened for writing.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ForeignError(path, LINK) from error
        if error.errno in (errno.EISDIR, errno.ENXIO):
            raise ForeignError(path, NO_FILE) from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ForeignError(path, NO_FILE)
    file = os.fdopen(descriptor, "r+b")
    if status.st_nlink > 1 or not is_own(file):
        file.close()
        raise ForeignError(path, FOREIGN)
    return file


def rewrite_lock(file: IO[bytes], content: bytes) -> None:
    """Replaces the content of a file of ``open_lock``, which this process has locked."""
    file.seek(0)
    file.truncate()
    file.write(content)
    file.flush()


def sync(path: StrPath) -> None:
    """Makes sure that a file, or the entries of a folder, are on disk.

    Some file systems of a network cannot do so for folders, and answer EINVAL.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise
    finally:
        os.close(descriptor)


def sync_entries(folder: StrPath) -> None:
    """Makes sure that the entries of a folder are on disk, where its file system can."""
    with contextlib.suppress(OSError):
        sync(folder)


def _exclusively(path: str, flags: int) -> int:
    return os.open(path, flags | _NEW, 0o666)


def _unfollowed(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
