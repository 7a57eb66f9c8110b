"""Functions with which all other packages write, replace and delete files.

There is one way to write: under a temporary name beside the final path (``.tmp-`` and 16 digits), which is locked until
the file or folder is complete and renamed. A killed process therefore leaves only files with such names and free locks,
which ``remove_unfinished`` removes.

Only files that OpenSeq2Seq has created are replaced or deleted. They are recognised by their content, except caches,
and results whose paths the user has given (``always``). Nothing is written through a symbolic link. Content is never
changed in place, except that of lock files, and except that ``append`` adds text at the end.

* ``writing`` and ``placing``: a file gets its final name when it is complete; an earlier file is replaced atomically.
* ``write_new`` and ``copy_new`` create a file, and fail if it exists. ``append`` adds to an existing one.
* ``new_folder``, ``remove_folder``: write a folder, or remove one except for the user's files in it.
* ``ListedFolder``: a folder with a list of the files that this package wrote there.
* ``open_lock`` opens a lock file, ``lock`` locks it, ``rewrite_lock`` changes its content.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.own_files import NotOwnFileError, open_own, sha256_of, without_links
from open_seq2seq.utils.posix import AT_ONCE, NO_LINKS, fcntl

LINK = "it is a symbolic link, and nothing is written through links"
NO_FILE = "it is not a regular file"
FOREIGN = "a file with this name exists that no run has created; it is not replaced"

TEMPORARY = ".tmp-"
"""Prefix of the names of unfinished files and folders."""
_UNFINISHED = re.compile(rf"{re.escape(TEMPORARY)}[0-9a-f]{{16}}\.new(\..*)?", re.DOTALL)
_LONGEST_ENDING = 20  # characters of a suffix that temporary names keep
_LONGEST_LINE = 1 << 16  # bytes
_MOST_LIST_BYTES = 1 << 22

StrPath = str | os.PathLike[str]
IsOwn = Callable[[BinaryIO], bool]
"""Function that returns whether this package has created a regular file, judging by its content."""
FilesOf = Callable[[Path], list[str] | None]
"""Function that returns the paths of the files that this package created in a folder, in the order of their removal.

It returns None if this package did not create the folder. The last file is the one by which the folder is recognised.
"""


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


@contextlib.contextmanager
def placing(path: StrPath, is_own: IsOwn, durable: bool = False, alone: bool = False) -> Iterator[Path]:
    """Yields the path of a new, empty file, which at the end of the context is renamed to ``path``.

    After an error, it is removed, and ``path`` is unchanged. After a kill, ``remove_unfinished`` removes it.

    Args:
      path: final path. An existing file is replaced atomically and never changed; if the path itself is a symbolic
        link, the link is not followed.
      is_own: returns whether an existing file may be replaced.
      durable: whether to sync the file to disk before it is renamed.
      alone: whether only one process at a time may write to ``path``; what a killed one has left is removed first.

    Raises:
      ForeignError: ``path`` is a symbolic link, is not a regular file, or is a file that ``is_own`` does not accept.
      BlockingIOError: with ``alone``, if another process writes to ``path``.
      OSError: the file cannot be written.
    """
    _check_replaceable(path, is_own)
    with _temporary(path, False, alone) as new:
        with naming(path):
            yield new
            if durable:
                _sync(new)
        _check_replaceable(path, is_own)
        os.replace(new, path)
        if durable:
            _sync(new.parent)


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
    flags = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
    return open(target if isinstance(target, int) else os.open(target, flags), mode, **how)


def write_new(path: StrPath, content: bytes | str) -> None:
    """Creates a file with the given content; text is written as UTF-8."""
    with naming(path), open(path, "xb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def fill(path: StrPath, content: bytes | str) -> None:
    """Writes bytes, or text as UTF-8, into the empty file that ``placing`` yields."""
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def copy_new(source: StrPath, target: StrPath) -> None:
    """Copies a file to a new file."""
    with naming(target), open(source, "rb") as file, open(target, "xb") as out:
        shutil.copyfileobj(file, out, 1 << 20)


def append(path: StrPath, text: str, is_own: IsOwn) -> None:
    """Appends lines to a file, as UTF-8; a symbolic link is not followed.

    If the file does not end with a line break, because a full disk or a kill cut the last line off, the part of that
    line is removed first.

    Raises:
      ForeignError: the path is not a regular file, or ``is_own`` does not accept the file.
    """
    _check_replaceable(path, is_own)
    with naming(path), open(path, "a+b", opener=without_links) as file:
        start = max(0, file.seek(0, os.SEEK_END) - _LONGEST_LINE)
        file.seek(start)
        file.truncate(start + file.read().rfind(b"\n") + 1)
        file.write(text.encode())


def _check_replaceable(path: StrPath, is_own: IsOwn) -> None:
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


@functools.cache
def process_folder() -> str:
    """Returns this process's temporary folder, which is removed when the process ends."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def lock(file: IO[bytes] | int, wait: bool = False) -> bool:
    """Locks a file or folder until it is closed; returns False if its file system, or the system, has no locks.

    Raises:
      BlockingIOError: another process holds the lock, and ``wait`` is False.
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def open_lock(path: StrPath, is_own: IsOwn) -> IO[bytes]:
    """Opens a lock file, which is created if it does not exist. Its content is not changed.

    Raises:
      ForeignError: the path is a symbolic link, is not a regular file, or has content that ``is_own`` does not accept.
      OSError: the file cannot be opened for writing.
    """
    _check_replaceable(path, is_own)
    return open(path, "r+b", opener=lambda name, flags: without_links(name, flags | os.O_CREAT))


def rewrite_lock(file: IO[bytes], content: bytes) -> None:
    """Replaces the content of a lock file that this process holds; it is empty if the disk has no space."""
    os.ftruncate(file.fileno(), 0)
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    os.write(file.fileno(), content)  # unbuffered, so that closing the file does not repeat a failed write


@contextlib.contextmanager
def _temporary(place: StrPath, is_folder: bool, alone: bool = False) -> Iterator[Path]:
    """Yields the path of a new, empty file or folder beside ``place``, which is removed at the end unless renamed.

    This process holds a lock on it, so that no other process takes it for that of a killed one. A file's temporary name
    has the same suffix as ``place``, because some libraries choose a format by it. With ``alone`` (see ``placing``),
    the name depends only on that of ``place``.
    """
    folder, name = os.path.split(place)
    token = hashlib.sha256(os.fsencode(name)).hexdigest()[:16] if alone else secrets.token_hex(8)
    path = os.path.join(folder, f"{TEMPORARY}{token}.new{os.path.splitext(name)[1][:_LONGEST_ENDING]}")
    with contextlib.suppress(FileNotFoundError):
        _remove_temporary(path)
    try:
        if is_folder:
            os.mkdir(path)
        else:
            open(path, "xb").close()
    except FileExistsError as error:
        raise BlockingIOError(errno.EWOULDBLOCK, "another process is using it", path) from error
    except OSError as error:
        error.filename = os.fspath(place)
        raise
    with _locked(path):
        try:
            yield Path(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                _remove(path)


@contextlib.contextmanager
def _locked(path: StrPath) -> Iterator[None]:
    """Context manager that locks a file or folder.

    Raises:
      BlockingIOError: another process holds the lock, or has renamed the file.
      OSError: the path does not exist, or is not a regular file or folder.
    """
    descriptor = os.open(path, os.O_RDONLY | NO_LINKS | AT_ONCE)
    try:
        lock(descriptor)
        status = os.fstat(descriptor)
        if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
            raise ForeignError(path, NO_FILE)
        if not status.st_nlink or not os.path.samestat(status, os.lstat(path)):
            raise BlockingIOError(errno.EWOULDBLOCK, "another process is using it", os.fspath(path))
        yield
    finally:
        os.close(descriptor)


def _remove_temporary(path: StrPath) -> None:
    """Removes an unfinished file or folder of a killed process, with all that the folder contains; see ``_locked``."""
    with _locked(path):
        _remove(path)


def _remove(path: StrPath) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def remove_unfinished(directory: Path, before: float = math.inf) -> None:
    """Removes unfinished files and folders of killed processes, which are recognised by the form of their names.

    Args:
      directory: the folder that contains them; nothing is done if it is a symbolic link.
      before: only what was last changed before this time, as of ``time.time``, is removed. Give it where several
        processes write, because some network file systems have no locks, or do not show them to other machines.
    """
    for entry in [] if directory.is_symlink() else list(directory.glob(f"{TEMPORARY}*")):
        with contextlib.suppress(OSError):
            if _UNFINISHED.fullmatch(entry.name) and entry.lstat().st_mtime < before:
                _remove_temporary(entry)


def _sync(path: StrPath) -> None:
    """Syncs a file, or the entries of a folder, to disk; errors of folders are ignored: not all systems can."""
    with contextlib.suppress(OSError) if os.path.isdir(path) else naming(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def new_folder(place: Path, files_of: FilesOf, alone: bool = False) -> Iterator[Path]:
    """Yields the path of a new folder, which is synced to disk and renamed to ``place``, or removed after an error.

    Args:
      place: final path.
      files_of: recognises folders of this package, which are replaced if they contain nothing else. Anything else at
        the final path is renamed, with a warning.
      alone: see ``placing``.

    Raises:
      BlockingIOError: see ``placing``.
      OSError: the folder cannot be written; ``place`` is unchanged.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(place, True, alone) as new:
        yield new
        for folder, _, names in os.walk(new, topdown=False):
            for path in (*(os.path.join(folder, name) for name in names), folder):
                _sync(path)
        is_folder = place.is_dir() and not place.is_symlink()
        if is_folder and (files := files_of(place)) is not None and _has_only(place, files):
            _remove_whole(place, new)
        else:
            if os.path.lexists(place):
                aside = move_aside(place, place.with_name(f"{place.name}.aside"))
                deco_print(f"WARNING: {place} was not created by this run and has been renamed to {aside.name}.")
            os.rename(new, place)
        _sync(place.parent)


def remove_file(path: StrPath) -> None:
    """Removes a file that this package created, if it exists and is a regular file."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISREG(os.lstat(path).st_mode):
            os.unlink(path)


def remove_folder(place: Path, names: list[str]) -> None:
    """Removes the given files of a folder, and the folder itself unless it contains other files.

    If it does not, and the process is killed, ``place`` is complete or does not exist.

    Args:
      place: the folder; not a symbolic link.
      names: paths in the folder; only regular files are removed, and symbolic links are not followed.

    Raises:
      OSError: the folder cannot be removed.
    """
    if _has_only(place, names):
        _remove_whole(place)
        return
    files, _ = _contents(place)
    for name in filter(files.__contains__, names):
        os.unlink(place / name)
        _remove_if_empty((place / name).parent)


def _remove_whole(place: Path, new: Path | None = None) -> None:
    """Removes a folder with all that it contains; ``new`` is a folder that gets its name."""
    with _temporary(place, True) as trash:
        old = trash / "old"
        os.rename(place, old)
        try:
            if new is not None:
                os.rename(new, place)
        except OSError:
            os.rename(old, place)
            raise


def _has_only(folder: Path, names: list[str]) -> bool:
    """Returns whether a folder contains no other files, links and the like than the given files."""
    files, others = _contents(folder)
    return not others and files <= {*names}


def _contents(folder: Path) -> tuple[set[str], set[str]]:
    """Returns the paths of the regular files in a folder, and those of links, pipes and the like; follows no links."""
    files: set[str] = set()
    others: set[str] = set()
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if not stat.S_ISDIR(mode):
            (files if stat.S_ISREG(mode) else others).add(str(path.relative_to(folder)))
    return files, others


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def move_aside(place: Path, target: Path) -> Path:
    """Renames ``place`` to ``target``, or to ``<target>-2``, ``-3``, … if it exists; returns the new path."""
    free = free_name(target)
    os.rename(place, free)
    return free


def free_name(place: Path) -> Path:
    """Returns a path that does not exist: the given path, or that path with a suffix: ``-2``, ``-3`` and so on."""
    number, free = 1, place
    while os.path.lexists(free):
        number += 1
        free = place.with_name(f"{place.name}-{number}")
    return free


class ListedFolder:
    """Files below a folder, and a list of them, which maps each path to the checksums of its last two versions.

    A file that is not in the list, or has another checksum, is neither replaced nor removed. Symbolic links are not
    followed.

    Args:
      folder: created together with the first file.
      list_name: file name of the list.
    """

    def __init__(self, folder: Path, list_name: str) -> None:
        self.folder, self._list = folder, list_name
        self._checksums: dict[str, list[str]] = {}
        with contextlib.suppress(OSError, NotOwnFileError), self.open(list_name) as file:
            self._checksums = _parsed_list(file) or {}

    @property
    def names(self) -> list[str]:
        """Paths of the files in the list."""
        return list(self._checksums)

    def is_own(self, name: str) -> bool:
        """Returns whether a file is in the list and has a listed checksum."""
        with contextlib.suppress(OSError, NotOwnFileError), self.open(name) as file:
            return sha256_of(file) in self._checksums.get(name, ())
        return False

    def open(self, name: str) -> BinaryIO:
        """Opens a file for reading; see ``own_files.open_own``."""
        return open_own(self.folder.parent, f"{self.folder.name}/{name}")

    @contextlib.contextmanager
    def putting(self, name: str, checksum: str = "") -> Iterator[Path]:
        """Yields the path of an empty file, which is put into the folder and its list at the end of the context.

        Args:
          name: path below the folder; a listed file with this path is replaced.
          checksum: SHA-256 checksum of the new content, if it is known beforehand.

        Raises:
          ForeignError: a file with this path exists that is not in the list or has changed, or a folder is a symbolic
            link.
          OSError: the file cannot be written.
        """
        place = self.folder / name
        if any((self.folder / parent).is_symlink() for parent in PurePosixPath(name).parents):
            raise ForeignError(place, LINK)
        place.parent.mkdir(parents=True, exist_ok=True)
        earlier = self._checksums.get(name, [])
        with placing(place, lambda file: sha256_of(file) in earlier) as new:
            yield new
            if not checksum:
                with open(new, "rb") as file:
                    checksum = sha256_of(file)
            # The checksum of the old file stays in the list, so that either file is recognised after a crash.
            self._write_list({**self._checksums, name: [*dict.fromkeys([*earlier, checksum])][-2:]})

    def add(self, names: list[str]) -> None:
        """Adds existing files to the list."""
        added = {}
        for name in names:
            with self.open(name) as file:
                added[name] = [sha256_of(file)]
        self._write_list({**self._checksums, **added})

    def link(self, name: str, other: str) -> None:
        """Creates the file ``name`` as a hard link to the listed file ``other``, and adds it to the list.

        Raises:
          OSError: see ``putting``; or the file system does not support hard links.
        """
        with self.putting(name, self._checksums[other][-1]) as new:
            further = f"{new}.link"
            os.link(self.folder / other, further, follow_symlinks=False)
            os.replace(further, new)

    def remove(self, names: list[str]) -> None:
        """Removes unchanged files, and folders that become empty; removes all given names from the list."""
        for name in filter(self.is_own, names):
            os.unlink(self.folder / name)
            _remove_if_empty((self.folder / name).parent)
        self._write_list({name: sums for name, sums in self._checksums.items() if name not in names})

    def _write_list(self, checksums: dict[str, list[str]]) -> None:
        with writing(self.folder / self._list, lambda file: _parsed_list(file) is not None) as file:
            file.write(json.dumps(checksums, indent=1).encode())
        self._checksums = checksums


def _parsed_list(file: BinaryIO) -> dict[str, list[str]] | None:
    """Returns the content of a list; None if the file is not a list."""
    try:
        content = json.loads(file.read(_MOST_LIST_BYTES))
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and all(isinstance(sums, list) for sums in content.values()) else None
