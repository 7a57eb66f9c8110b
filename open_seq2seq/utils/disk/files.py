"""Files that get their names when they are complete, and lock files."""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from open_seq2seq.utils.own_files import without_links

LINK = "it is a symbolic link, and nothing is written through links"
NO_FILE = "it is not a regular file"
FOREIGN = "a file with this name exists that no run has created; it is not replaced"

TEMPORARY = ".tmp-"
"""Prefix of the names of unfinished files and folders."""
# A new file or folder, or an old folder that is being removed, with its name.
UNFINISHED = re.compile(rf"{re.escape(TEMPORARY)}[0-9a-f]{{16}}\.(new(\..*)?|old\.(?P<name>.+))", re.DOTALL)
_LONGEST_ENDING = 20  # characters of a suffix that temporary names keep
_BLOCK = 1 << 16  # bytes that are read at once in search of the last line break

StrPath = str | os.PathLike[str]
IsOwn = Callable[[BinaryIO], bool]
"""Function that returns whether this package has created a regular file, judging by its content."""


class ForeignError(OSError):
    """A file or folder must not be changed: it is a link, or this package did not create it; see ``strerror``."""

    def __init__(self, path: StrPath, what: str) -> None:
        super().__init__(errno.EEXIST, what, os.fspath(path))


def always(file: BinaryIO) -> bool:
    """An ``IsOwn`` that accepts every regular file.

    Used for caches, whose names contain a checksum (a damaged cache must be replaceable), and for results, whose names
    the user has given.
    """
    return True


@contextlib.contextmanager
def naming(path: StrPath) -> Iterator[None]:
    """Context manager that adds a path to system errors that name none, such as those of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise


def lock(file: IO[bytes] | int, wait: bool = False) -> bool:
    """Locks a file or folder until it is closed; returns False if its file system has no locks.

    Raises:
      BlockingIOError: another process holds the lock, and ``wait`` is False.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


@contextlib.contextmanager
def locked(path: StrPath) -> Iterator[os.stat_result]:
    """Context manager that locks a file or folder, which may be renamed meanwhile, and yields its status.

    Raises:
      BlockingIOError: another process holds the lock, or has renamed the file.
      OSError: the path does not exist or is a symbolic link.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        lock(descriptor)
        status = os.fstat(descriptor)
        if not status.st_nlink or not os.path.samestat(status, os.lstat(path)):
            raise BlockingIOError(errno.EWOULDBLOCK, "another process is using it", os.fspath(path))
        yield status
    finally:
        os.close(descriptor)


def remove_temporary(path: StrPath) -> None:
    """Removes an unfinished file or folder of a killed process, with all that the folder contains.

    Raises:
      BlockingIOError: the process that writes it is still running.
      OSError: it does not exist, or cannot be removed.
    """
    with locked(path) as status:
        if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
            raise ForeignError(path, NO_FILE)
        _remove(path, stat.S_ISDIR(status.st_mode))


def _remove(path: StrPath, is_folder: bool) -> None:
    if is_folder:
        shutil.rmtree(path)
    else:
        os.unlink(path)


@contextlib.contextmanager
def temporary(place: StrPath, is_folder: bool = False, alone: bool = False) -> Iterator[Path]:
    """Yields the path of a new, empty file or folder beside ``place``, which is removed at the end unless renamed.

    This process holds a lock on it, so that no other process takes it for that of a killed one.

    Args:
      place: final path. A file's temporary name has the same suffix, because some libraries choose a format by it.
      is_folder: whether to create a folder.
      alone: whether only one process at a time may write to ``place``; what a killed one has left is removed first.

    Raises:
      BlockingIOError: with ``alone``, if another process writes to ``place``.
      OSError: the file cannot be created.
    """
    folder, name = os.path.split(place)
    token = hashlib.sha256(os.fsencode(name)).hexdigest()[:16] if alone else secrets.token_hex(8)
    path = os.path.join(folder, f"{TEMPORARY}{token}.new{os.path.splitext(name)[1][:_LONGEST_ENDING]}")
    if alone:
        with contextlib.suppress(FileNotFoundError):
            remove_temporary(path)
    try:
        if is_folder:
            os.mkdir(path)
        else:
            open(path, "xb").close()
    except FileExistsError as error:
        raise BlockingIOError(errno.EWOULDBLOCK, "another process is using it", path) from error
    with locked(path):
        try:
            yield Path(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                _remove(path, is_folder)


@contextlib.contextmanager
def placing(path: StrPath, is_own: IsOwn, durable: bool = False, alone: bool = False) -> Iterator[Path]:
    """Yields the path of a new, empty file, which at the end of the context is renamed to ``path``.

    After an error, it is removed, and ``path`` is unchanged. After a kill, ``remove_unfinished`` removes it.

    Args:
      path: final path. An existing file is replaced atomically and never changed; if the path itself is a symbolic
        link, the link is not followed.
      is_own: returns whether an existing file may be replaced.
      durable: whether to sync the file to disk before it is renamed.
      alone: see ``temporary``.

    Raises:
      ForeignError: ``path`` is a symbolic link, is not a regular file, or is a file that ``is_own`` does not accept.
      OSError: the file cannot be written; see ``temporary``.
    """
    check_replaceable(path, is_own)
    with temporary(path, alone=alone) as new:
        with naming(path):
            yield new
            if durable:
                sync(new)
        check_replaceable(path, is_own)
        os.replace(new, path)
        if durable:
            sync(new.parent)


@contextlib.contextmanager
def writing(path: StrPath, is_own: IsOwn, durable: bool = False, alone: bool = False, mode: str = "r+b",
            **how: Any) -> Iterator[Any]:
    """Context manager that opens a file for writing, which gets its name at the end; see ``placing``.

    Args:
      path, is_own, durable, alone: see ``placing``.
      mode: ``r+b`` for bytes, ``r+`` for text.
      how: more arguments of ``open``.
    """
    with placing(path, is_own, durable, alone) as new, open(new, mode, **how) as file:
        yield file


def open_stream(target: str | int, mode: str, **how: Any) -> IO[Any]:
    """Opens a pipe, a terminal, a device such as ``/dev/null``, or a descriptor for writing; nothing is created."""
    return open(target if isinstance(target, int) else os.open(target, os.O_WRONLY | os.O_CLOEXEC), mode, **how)


def write_new(path: StrPath, content: bytes | str) -> None:
    """Creates a file with the given content; text is written as UTF-8."""
    with naming(path), open(path, "xb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def fill(path: StrPath, content: bytes | str) -> None:
    """Writes bytes, or text as UTF-8, into the empty file that ``placing`` yields."""
    with open(path, "r+b") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def append(path: StrPath, text: str, is_own: IsOwn) -> None:
    """Appends lines to a file, as UTF-8; a symbolic link is not followed.

    If the file does not end with a line break, because a full disk or a kill cut the last line off, the part of that
    line is removed first.

    Raises:
      ForeignError: the path is not a regular file, or ``is_own`` does not accept the file.
    """
    check_replaceable(path, is_own)
    with naming(path), open(path, "a+b", opener=without_links) as file:
        end = _end_of_lines(file)
        if end < file.seek(0, os.SEEK_END):
            file.truncate(end)
        file.write(text.encode())


def _end_of_lines(file: BinaryIO) -> int:
    """Returns the position after the last line break of a file, 0 if it has none; reads from the end, in blocks."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK)
        file.seek(start)
        line_break = file.read(end - start).rfind(b"\n")
        if line_break >= 0:
            return start + line_break + 1
        end = start
    return 0


def copy_new(source: StrPath, target: StrPath) -> None:
    """Copies a file to a new file."""
    with naming(target), open(source, "rb") as file, open(target, "xb") as out:
        shutil.copyfileobj(file, out, 1 << 20)


def checksum_of(file: BinaryIO) -> str:
    """Returns the SHA-256 checksum of an open file from its current position on."""
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # typeshed requires more methods


@functools.cache
def process_folder() -> str:
    """Returns this process's temporary folder, which is removed when the process ends."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def check_replaceable(path: StrPath, is_own: IsOwn) -> None:
    """Raises ForeignError unless ``path`` does not exist, or is a regular file that ``is_own`` accepts."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise ForeignError(path, LINK if stat.S_ISLNK(mode) else NO_FILE)
    if is_own is always:
        return
    with open(path, "rb", opener=without_links) as file:
        if not is_own(file):
            raise ForeignError(path, FOREIGN)


def open_lock(path: StrPath, is_own: IsOwn) -> IO[bytes]:
    """Opens a lock file, which is created if it does not exist. Its content is not changed.

    Raises:
      ForeignError: the path is a symbolic link, is not a regular file, has several hard links, or has content that
        ``is_own`` does not accept.
      OSError: the file cannot be opened for writing.
    """
    check_replaceable(path, is_own)
    file = open(path, "r+b", opener=lambda name, flags: without_links(name, flags | os.O_CREAT))
    if os.fstat(file.fileno()).st_nlink > 1:
        file.close()
        raise ForeignError(path, FOREIGN)
    return file


def rewrite_lock(file: IO[bytes], content: bytes) -> None:
    """Replaces the content of a lock file that this process holds; it is not changed if the disk has no space."""
    os.ftruncate(file.fileno(), 0)
    # Unbuffered, so that closing the file does not repeat a failed write.
    if os.pwrite(file.fileno(), content, 0) < len(content):
        os.ftruncate(file.fileno(), 0)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def sync(path: StrPath) -> None:
    """Syncs a file, or the entries of a folder, to disk; errors of folders are ignored: not all systems can."""
    with contextlib.suppress(OSError) if os.path.isdir(path) else naming(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
