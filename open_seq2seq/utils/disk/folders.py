"""Folders that get their names when they are complete, and the removal of folders that they replace.

A folder is written or removed inside a temporary folder, such as ``.tmp-<random digits>``, next to its final path. If a
process is killed at any moment, the next process reads the marker file in the temporary folder, restores the folder
that was about to be replaced, and removes all unfinished files and the listed files of the folder to be removed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.disk.files import (
    FOREIGN,
    LINK,
    TEMPORARY,
    ForeignError,
    always,
    check_replaceable,
    is_temporary_name,
    lock,
    naming,
    new_file,
    sync_entries,
    temporary_name,
)
from open_seq2seq.utils.own_files import NotOwnFileError, open_own

MARK = "made-by-open_seq2seq.json"
_NEW_MARK = f"{MARK}.new"
_WRITTEN, _OLD = "written", "old"
_MOST_MARK_BYTES = 1 << 22

FilesOf = Callable[[Path], list[str] | None]
"""Function that returns the paths of the files in a folder that this package created and may delete.

It returns None if this package did not create the folder.
"""


class Workplace:
    """A temporary folder in which a file or folder is written. This process holds a lock on its marker file.

    Args:
      folder: path of the new temporary folder.
      place: final path of the file or folder that is written.

    Attributes:
      written: path in ``folder`` of the file or folder to write.

    Raises:
      FileExistsError: ``folder`` exists.
    """

    def __init__(self, folder: Path, place: Path) -> None:
        self.folder, self.written, self._old, self._place = folder, folder / _WRITTEN, folder / _OLD, place
        self._about: dict[str, Any] = {"place": place.name, "files": None, "old": [], "replaces": False}
        folder.mkdir(mode=0o700)
        try:
            self._mark = _new_mark(folder, self._about)
        except OSError:
            _remove_if_empty(folder)
            raise

    @classmethod
    def beside(cls, place: Path) -> Workplace:
        """Creates a ``Workplace`` with a unique name next to ``place``."""
        return cls(place.parent / temporary_name(), place)

    @classmethod
    def claimed(cls, folder: Path, place: Path) -> Workplace:
        """Creates a ``Workplace`` at a path at which other processes may create one, too.

        What a killed process has left at this path is removed first.

        Raises:
          ForeignError: ``folder`` exists and is not a ``Workplace``.
          BlockingIOError: another process is using ``folder``.
        """
        while True:
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                return cls(folder, place)
            if folder.is_symlink() or not folder.is_dir():
                raise ForeignError(folder, LINK if folder.is_symlink() else FOREIGN)
            _remove_if_empty(folder)
            if folder.exists():
                _take_over(folder)

    def move_here(self, files: list[str], replaces: bool) -> None:
        """Moves the existing folder at ``place`` into this temporary folder, where ``close`` removes ``files``.

        If this process is killed before ``close``, ``remove_unfinished`` in another process removes them instead, or
        moves the folder back (see ``replaces``).

        Args:
          files: paths, in the existing folder, of the files to remove. If the folder has other files, it is moved back
            to ``place`` or, if ``place`` exists then, to a path next to it.
          replaces: whether a new folder will be put at ``place``. If this process is killed before that, the next
            process moves the existing folder back unchanged.
        """
        self._about |= {"old": files, "replaces": replaces}
        before, self._mark = self._mark, _new_mark(self.folder, self._about)
        before.close()
        os.rename(self._place, self._old)

    def put(self, files_of: FilesOf) -> None:
        """Renames the written folder to its final path.

        Args:
          files_of: recognises folders of this package, which are replaced. Anything else at the final path is renamed,
            with a warning.

        Raises:
          OSError: the folder cannot be renamed; the final path is unchanged.
        """
        place = self._place
        old = files_of(place) if place.is_dir() and not place.is_symlink() else None
        if old is not None:
            with contextlib.suppress(PermissionError):  # the folder may be read-only
                self.move_here(old, replaces=True)
        if os.path.lexists(place):
            aside = move_aside(place, _aside(place))
            deco_print(f"WARNING: {place} was not created by this run and has been renamed to {aside.name}.")
        try:
            os.rename(self.written, place)
        except OSError:
            if self._old.exists():
                os.rename(self._old, place)
            raise
        sync_entries(place.parent)

    def put_file(self) -> None:
        """Renames the written file to its final path; an existing file is replaced atomically.

        Raises:
          ForeignError: the final path is a symbolic link, or is not a regular file.
        """
        check_replaceable(self._place, always)
        os.replace(self.written, self._place)
        sync_entries(self._place.parent)

    def close(self) -> None:
        """Removes unfinished files, the listed files of a replaced folder, and then the temporary folder itself."""
        try:
            _clear(self.folder, self._place.parent, self._about)
        finally:
            self._mark.close()


@contextlib.contextmanager
def new_folder(place: Path, files_of: FilesOf) -> Iterator[Path]:
    """Yields the path of a new folder, which is renamed to ``place`` at the end, or removed after an error.

    Args:
      place: final path; ``Workplace.put`` describes what happens if it exists.
      files_of: recognises folders of this package.

    Raises:
      OSError: the folder cannot be written; ``place`` is unchanged.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    work = Workplace.beside(place)
    try:
        work.written.mkdir()
        yield work.written
        work.put(files_of)
    except Exception:
        work.close()
        raise
    work.close()


def remove_folder(place: Path, files: list[str]) -> None:
    """Removes the given files of a folder, and the folder itself if it is then empty.

    The folder is renamed first, so that after a crash ``place`` is never a partly removed folder. If the folder has
    other files, these remain, and the folder gets its name back.

    Args:
      place: the folder; not a symbolic link.
      files: paths in the folder; only regular files are removed.

    Raises:
      OSError: the folder cannot be removed.
    """
    work = Workplace.beside(place)
    try:
        work.move_here(files, replaces=False)
    except OSError:
        work.close()
        raise
    work.close()


def remove_listed(folder: Path, files: Iterable[str]) -> bool:
    """Removes regular files, then ``folder``, the folders of the files and listed folders if they are empty.

    Args:
      folder: the folder that contains the files.
      files: paths in ``folder``. Paths that lead out of it or through a symbolic link are ignored.

    Returns:
      Whether ``folder`` no longer exists.
    """
    parents = {PurePosixPath(".")}
    for name in files:
        if _is_below(folder, name):
            _unlink(folder, name)
            parents |= {PurePosixPath(name), *PurePosixPath(name).parents}
    for parent in sorted(parents, key=lambda path: -len(path.parts)):
        _remove_if_empty(folder / parent)
    return not os.path.lexists(folder)


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


def remove_unfinished(directory: Path) -> None:
    """Removes unfinished files of killed processes, and restores folders that they were about to replace.

    Folders are recognised by their marker file, files and empty folders by the form of their names.
    """
    for entry in list(directory.glob(f"{TEMPORARY}*")) if directory.is_dir() and not directory.is_symlink() else ():
        with contextlib.suppress(OSError):
            if not is_temporary_name(entry.name) or entry.is_symlink() or entry.is_dir():
                _take_over(entry)
            elif entry.is_file():
                _remove_unlocked(entry)


def _take_over(folder: Path) -> None:
    """Clears a folder that a killed process has left.

    Raises:
      ForeignError: the folder has no valid marker file, or contains files that are not listed.
      BlockingIOError: another process is using the folder.
    """
    try:
        mark = open_own(folder.parent, f"{folder.name}/{MARK}")
    except NotOwnFileError as error:
        raise ForeignError(folder, FOREIGN) from error
    except FileNotFoundError as error:
        _remove_unmarked(folder)
        if not folder.exists():
            return
        raise ForeignError(folder, FOREIGN) from error
    with mark:
        try:
            about = _checked(json.loads(mark.read(_MOST_MARK_BYTES)))
        except (ValueError, RecursionError):
            about = None
        if about is None:
            raise ForeignError(folder, FOREIGN)
        if not lock(mark):
            raise BlockingIOError(errno.EWOULDBLOCK, "another process is using it", str(folder))
        _clear(folder, folder.parent, about)
    if folder.exists():
        raise ForeignError(folder, FOREIGN)


def _clear(folder: Path, directory: Path, about: dict[str, Any]) -> None:
    """Removes what a temporary folder contains, restores a folder that was to be replaced, and removes the folder.

    Args:
      folder: the temporary folder.
      directory: folder of the final path.
      about: content of the marker file.
    """
    place, old, written = directory / about["place"], folder / _OLD, folder / _WRITTEN
    if written.is_dir() and not written.is_symlink():
        if about["files"] is not None:  # older versions listed the files
            remove_listed(written, about["files"])
        _remove_below(written, only_folders=about["files"] is not None)
    else:
        _unlink(folder, _WRITTEN)
    if old.is_dir() and not old.is_symlink():
        if about["replaces"] and not os.path.lexists(place):
            os.rename(old, place)
        elif not remove_listed(old, about["old"]):
            _give_back(old, place)
    _unlink(folder, _NEW_MARK)
    if not any(os.path.lexists(path) for path in (old, written)):
        _unlink(folder, MARK)
    _remove_if_empty(folder)


def _aside(place: Path) -> Path:
    return place.with_name(f"{place.name}.aside")


def _give_back(old: Path, place: Path) -> None:
    """Restores a folder in which files of the user remain, to its old path or to one next to it."""
    if os.path.lexists(place):
        deco_print(f"WARNING: {place} had files that no run created: they are now in {move_aside(old, _aside(place))}.")
    else:
        os.rename(old, place)


def _new_mark(folder: Path, about: dict[str, Any]) -> IO[bytes]:
    path = folder / _NEW_MARK
    mark = new_file(path)
    try:
        lock(mark)
        with naming(path):
            mark.write(json.dumps(about).encode())
            mark.flush()
            if about["replaces"]:  # so that the folder to be replaced can be restored even after a power failure
                os.fsync(mark.fileno())
        os.replace(path, folder / MARK)
    except OSError:
        mark.raw.close()  # without another attempt to write what the disk has no space for
        _unlink(folder, _NEW_MARK)
        raise
    return mark


def _remove_unmarked(folder: Path) -> None:
    """Removes a temporary folder whose process was killed before it had a marker file; others are not touched."""
    if folder.is_dir() and os.listdir(folder) == [_NEW_MARK]:
        _remove_unlocked(folder / _NEW_MARK)
        _remove_if_empty(folder)
    elif is_temporary_name(folder.name):
        _remove_if_empty(folder)


def _remove_unlocked(path: Path) -> None:
    """Removes a regular file unless a process that writes it holds its lock."""
    with open_own(path.parent, path.name) as file:
        if lock(file):
            _unlink(path.parent, path.name)


def _checked(about: Any) -> dict[str, Any] | None:
    if not isinstance(about, dict) or type(about.get("replaces")) is not bool:
        return None
    lists = [about.get("files") or [], about.get("old"), [about.get("place")]]
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists):
        return None
    return about if os.path.basename(about["place"]) == about["place"] not in ("", ".", "..") else None


def _remove_below(folder: Path, only_folders: bool) -> None:
    """Removes all regular files below a folder, unless ``only_folders``, and then its empty folders and itself."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in () if only_folders else names:
            _unlink(Path(parent), name)
        _remove_if_empty(Path(parent))


def _is_below(folder: Path, name: str) -> bool:
    """Returns whether a path is below a folder and does not pass through a symbolic link."""
    path = PurePosixPath(name)
    return (bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name
            and not any((folder / parent).is_symlink() for parent in path.parents))


def _unlink(folder: Path, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISREG(os.lstat(folder / name).st_mode):
            os.unlink(folder / name)


def _remove_if_empty(folder: Path) -> None:
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
            raise
