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

LINK = "it is a symbolic link, and nothing is written through links"
NO_FILE = "it is not a regular file"
FOREIGN = "a file with this name exists that no run has created; it is not replaced"

TEMPORARY = ".tmp-"
"""Prefix of the names of unfinished files and folders."""
_TAG = ".open_seq2seq"  # follows the random digits in the names of unfinished files
_UNFINISHED = re.compile(rf"{re.escape(TEMPORARY)}[0-9a-f]{{16}}({re.escape(_TAG)}(\..*)?)?")
_LONGEST_ENDING = 20  # characters of a suffix that temporary names keep
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

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


def temporary_name(suffix: str = "") -> str:
    """Returns a random name for an unfinished folder or, with a suffix that begins with ``_TAG``, for a file."""
    return f"{TEMPORARY}{secrets.token_hex(8)}{suffix}"


def is_temporary_name(name: str) -> bool:
    """Returns whether a name is one of ``temporary_name``."""
    return _UNFINISHED.fullmatch(name) is not None


@contextlib.contextmanager
def naming(path: StrPath) -> Iterator[None]:
    """Context manager that adds a path to system errors that name none, such as those of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise


def lock(file: IO[bytes] | int) -> bool:
    """Locks a file; returns False if another process holds the lock, True on file systems without locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


@contextlib.contextmanager
def placing(path: StrPath, is_own: IsOwn, durable: bool = False) -> Iterator[Path]:
    """Yields the path of a new, empty file, which at the end of the context is renamed to ``path``.

    After an error, it is removed, and ``path`` is unchanged. After a kill, ``remove_unfinished`` removes it. The new
    file has the suffix of ``path``, because some libraries choose a format by it.

    Args:
      path: final path. An existing file is replaced atomically and never changed; if the path itself is a symbolic
        link, the link is not followed.
      is_own: returns whether an existing file may be replaced.
      durable: whether to sync the file to disk before it is renamed.

    Raises:
      ForeignError: ``path`` is a symbolic link, is not a regular file, or is a file that ``is_own`` does not accept.
      OSError: the file cannot be written.
    """
    path = os.fspath(path)
    check_replaceable(path, is_own)
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, temporary_name(_TAG + os.path.splitext(name)[1][:_LONGEST_ENDING]))
    descriptor = os.open(temporary, os.O_WRONLY | _NEW, 0o666)
    try:
        lock(descriptor)  # until the end, so that no other process takes the file for that of a killed one
        with naming(path):
            yield Path(temporary)
            if durable:
                sync(temporary)
        check_replaceable(path, is_own)
        os.replace(temporary, path)
        if durable:
            sync_entries(folder or ".")
    finally:
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


@contextlib.contextmanager
def writing(path: StrPath, is_own: IsOwn, durable: bool = False) -> Iterator[BinaryIO]:
    """Context manager that opens a binary file for writing, which gets its name at the end; see ``placing``."""
    with placing(path, is_own, durable) as temporary, open(temporary, "r+b") as file:
        yield file


def new_file(path: StrPath, mode: str = "xb", **how: Any) -> Any:
    """Creates a file and opens it for writing.

    Args:
      path: path of the new file.
      mode: ``xb`` for bytes, ``x`` for UTF-8 text.
      how: more arguments of ``open``.

    Raises:
      FileExistsError: the path exists.
    """
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, opener=_exclusively, encoding=encoding, **how)


def open_stream(target: str | int, mode: str, **how: Any) -> IO[Any]:
    """Opens a pipe, a terminal, a device such as ``/dev/null``, or a descriptor for writing.

    Raises:
      ForeignError: the target is a regular file, whose content would be lost.
    """
    def unchanged(path: str, flags: int) -> int:
        return os.open(path, flags & ~(os.O_TRUNC | os.O_CREAT))

    file = open(target, mode, opener=None if isinstance(target, int) else unchanged, **how)
    if isinstance(target, str) and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ForeignError(target, FOREIGN)
    return file


def write_new(path: StrPath, content: bytes | str) -> None:
    """Creates a file with the given content; text is written as UTF-8."""
    with naming(path), new_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def fill(path: StrPath, content: bytes | str) -> None:
    """Writes bytes, or text as UTF-8, into the empty file that ``placing`` yields."""
    with open(path, "r+b") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def append(path: StrPath, text: str, is_own: IsOwn) -> None:
    """Appends lines to a file, as UTF-8; a symbolic link is not followed.

    If the file does not end with a line break, because a full disk or a kill cut the last line off, one is added first.

    Raises:
      ForeignError: the path is not a regular file, or ``is_own`` does not accept the file.
    """
    with naming(path), open(path, "a+b", opener=_unfollowed) as file:
        file.seek(0)
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) or not is_own(file):
            raise ForeignError(path, FOREIGN)
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            text = text if file.read(1) == b"\n" else f"\n{text}"
        file.write(text.encode())


def copy_new(source: StrPath, target: StrPath) -> str:
    """Copies a file to a new file; returns the SHA-256 checksum of the copy."""
    with naming(target), open(source, "rb") as file, new_file(target) as out:
        shutil.copyfileobj(file, out, 1 << 20)
    with open(target, "rb") as copy:
        return checksum_of(copy)


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
    with open(path, "rb", opener=_unfollowed) as file:
        if not is_own(file):
            raise ForeignError(path, FOREIGN)


def open_lock(path: StrPath, is_own: IsOwn) -> IO[bytes]:
    """Opens a lock file, which is created if it does not exist. Its content is not changed.

    Raises:
      ForeignError: the path is a symbolic link, is not a regular file, has several hard links, or has content that
        ``is_own`` does not accept.
      OSError: the file cannot be opened for writing.
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
    """Replaces the content of a lock file from ``open_lock`` that this process holds."""
    os.ftruncate(file.fileno(), 0)
    # Unbuffered, so that closing the file does not repeat a failed write.
    if os.pwrite(file.fileno(), content, 0) < len(content):
        os.ftruncate(file.fileno(), 0)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def sync(path: StrPath) -> None:
    """Syncs a file, or the entries of a folder, to disk.

    Some network file systems cannot sync folders; their errors EINVAL and ENOTSUP are ignored.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise
    finally:
        os.close(descriptor)


def sync_entries(folder: StrPath) -> None:
    """Syncs the entries of a folder to disk; errors are ignored."""
    with contextlib.suppress(OSError):
        sync(folder)


def _exclusively(path: str, flags: int) -> int:
    return os.open(path, flags | _NEW, 0o666)


def _unfollowed(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
