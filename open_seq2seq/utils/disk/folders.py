"""Folders that get their names when they are whole, and how those that they replace are removed.

A folder is written, or taken apart, within another one of a new name (``.tmp-<number>``), whose mark lists what was
made in it. So a process may be killed at any moment: the next one finds the mark, puts back what was about to be
replaced, and removes the files that the mark lists, and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
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
    new_file,
    sync_entries,
)
from open_seq2seq.utils.own_files import NotOwnFileError, open_own

MARK = "made-by-open_seq2seq.json"
_WRITTEN, _OLD = "written", "old"
_MOST_MARK_BYTES = 1 << 22

FilesOf = Callable[[Path], list[str] | None]
"""Folder → the files in it that this package made and may delete, by path; None where the folder is not its own."""


class Workplace:
    """A new folder with a mark, which is locked as long as this process has to do with it.

    Args:
      folder: to be made; what is made in it stands under the name ``written``.
      place: where that belongs.
      files: paths of the files that will be made, where it is a folder; None for whatever will be in it.

    Attributes:
      written: see above.

    Raises:
      FileExistsError: something has the folder's name.
    """

    def __init__(self, folder: Path, place: Path, files: Iterable[str] | None) -> None:
        self.folder, self.written, self._old, self._place = folder, folder / _WRITTEN, folder / _OLD, place
        listed = None if files is None else sorted(files)
        self._about = {"place": place.name, "files": listed, "old": [], "replaces": False}
        folder.mkdir(mode=0o700)
        self._mark = _new_mark(folder, self._about)

    @classmethod
    def beside(cls, place: Path, files: Iterable[str] | None = ()) -> Workplace:
        """Makes one with a name that nobody else has, in the folder of a place."""
        return cls(place.parent / f"{TEMPORARY}{secrets.token_hex(8)}", place, files)

    @classmethod
    def claimed(cls, folder: Path, place: Path) -> Workplace:
        """Makes one of a name that other processes use too; what one of them left when it was killed is removed.

        Raises:
          ForeignError: something else has the name.
          BlockingIOError: another process is at work in it.
        """
        while True:
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                return cls(folder, place, None)
            if folder.is_symlink() or not folder.is_dir():
                raise ForeignError(folder, LINK if folder.is_symlink() else FOREIGN)
            _remove_if_empty(folder)
            if folder.exists():
                _take_over(folder)

    def move_here(self, files: list[str], replaces: bool) -> None:
        """Moves what has the place now away; ``replaces`` says whether it goes back after a kill in between."""
        self._about |= {"old": files, "replaces": replaces}
        before, self._mark = self._mark, _new_mark(self.folder, self._about)
        before.close()
        os.rename(self._place, self._old)

    def put(self, files_of: FilesOf) -> None:
        """Gives the folder that was written its name.

        Args:
          files_of: knows own folders: one that has the name is replaced. Anything else is renamed, and a line says so.

        Raises:
          OSError: it cannot be renamed; what had the name has it still.
        """
        place = self._place
        old = files_of(place) if place.is_dir() and not place.is_symlink() else None
        if old is not None:
            with contextlib.suppress(PermissionError):  # of a folder that may not be changed
                self.move_here(old, replaces=True)
        if os.path.lexists(place):
            aside = move_aside(place, _aside(place))
            deco_print(f"WARNING: {place} was not made by this run: it is renamed to {aside.name}.")
        try:
            os.rename(self.written, place)
        except OSError:
            if self._old.exists():
                os.rename(self._old, place)
            raise
        sync_entries(place.parent)

    def put_file(self) -> None:
        """Gives the file that was written its name; a file that has it is replaced in one step.

        Raises:
          ForeignError: a link or something that is no file has the name.
        """
        check_replaceable(self._place, always)
        os.replace(self.written, self._place)
        sync_entries(self._place.parent)

    def close(self) -> None:
        """Removes what is left: files that are listed, then the folder."""
        try:
            _clear(self.folder, self._place.parent, self._about)
        finally:
            self._mark.close()


@contextlib.contextmanager
def new_folder(place: Path, files: Iterable[str], files_of: FilesOf) -> Iterator[Path]:
    """Gives a new folder that gets the name ``place`` when the context is left; an error removes it.

    Args:
      place: what has the name then: see ``Workplace.put``.
      files: paths of the files that will be made in it.
      files_of: knows own folders.

    Raises:
      OSError: it cannot be written; what had the place has it still.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    work = Workplace.beside(place, files)
    try:
        work.written.mkdir()
        yield work.written
        work.put(files_of)
    except Exception:
        work.close()
        raise
    work.close()


def remove_folder(place: Path, files: list[str]) -> None:
    """Removes files of a folder, and the folder once it is empty; it loses its name first.

    Files of others in it stay, and the folder with them. A crash in between leaves nothing half removed under its name.

    Args:
      place: the folder, no link.
      files: paths in it; links and what is no file are left.

    Raises:
      OSError: it cannot be removed.
    """
    work = Workplace.beside(place)
    try:
        work.move_here(files, replaces=False)
    except OSError:
        work.close()
        raise
    work.close()


def remove_listed(folder: Path, files: Iterable[str]) -> bool:
    """Removes regular files below a folder, then the folders of theirs that are empty; returns whether all is gone."""
    parents = {PurePosixPath(".")}
    for name in files:
        if _is_below(folder, name):
            _unlink(folder, name)
            parents |= set(PurePosixPath(name).parents)
    for parent in sorted(parents, key=lambda path: -len(path.parts)):
        _remove_if_empty(folder / parent)
    return not os.path.lexists(folder)


def move_aside(place: Path, target: Path) -> Path:
    """Renames something to ``target``, or to ``<target>-2`` and so on where that is taken; returns the new path."""
    free = free_name(target)
    os.rename(place, free)
    return free


def free_name(place: Path) -> Path:
    """Returns a path that nothing has: the given one, or that with ``-2`` and so on."""
    number, free = 1, place
    while os.path.lexists(free):
        number += 1
        free = place.with_name(f"{place.name}-{number}")
    return free


def remove_unfinished(directory: Path) -> None:
    """Removes what killed processes left half written, and puts back what they were about to replace.

    What merely has such a name, and no mark, is left.
    """
    for folder in list(directory.glob(f"{TEMPORARY}*")) if directory.is_dir() and not directory.is_symlink() else ():
        with contextlib.suppress(OSError):
            _take_over(folder)


def _take_over(folder: Path) -> None:
    """Clears a folder that a killed process left.

    Raises:
      ForeignError: it has no mark.
      BlockingIOError: another process is at work in it.
    """
    try:
        mark = open_own(folder.parent, f"{folder.name}/{MARK}")
    except NotOwnFileError as error:
        raise ForeignError(folder, FOREIGN) from error
    except FileNotFoundError as error:
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
        if not _lock(mark):
            raise BlockingIOError(errno.EWOULDBLOCK, "another process is at work there", str(folder))
        _clear(folder, folder.parent, about)
    if folder.exists():
        raise ForeignError(folder, FOREIGN)


def _clear(folder: Path, directory: Path, about: dict[str, Any]) -> None:
    place, old, written = directory / about["place"], folder / _OLD, folder / _WRITTEN
    if written.is_dir() and not written.is_symlink():
        remove_listed(written, _below(written) if about["files"] is None else about["files"])
    else:
        _unlink(folder, _WRITTEN)
    if old.is_dir() and not old.is_symlink():
        if about["replaces"] and not os.path.lexists(place):
            os.rename(old, place)
        elif not remove_listed(old, about["old"]):
            _give_back(old, place)
    if not any(os.path.lexists(path) for path in (old, written)):
        _unlink(folder, MARK)
    _remove_if_empty(folder)


def _aside(place: Path) -> Path:
    return place.with_name(f"{place.name}.aside")


def _give_back(old: Path, place: Path) -> None:
    """What is left of a folder are files of others: they get their place again, or one beside it."""
    if os.path.lexists(place):
        deco_print(f"WARNING: {place} held files that no run made: they are in {move_aside(old, _aside(place))}.")
    else:
        os.rename(old, place)


def _new_mark(folder: Path, about: dict[str, Any]) -> IO[bytes]:
    mark = new_file(folder / f"{MARK}.new")
    mark.write(json.dumps(about).encode())
    mark.flush()
    if about["replaces"]:  # after a power cut, too, what is about to be replaced has to be found
        os.fsync(mark.fileno())
    _lock(mark)
    os.replace(folder / f"{MARK}.new", folder / MARK)
    return mark


def _lock(file: IO[bytes]) -> bool:
    """Whether no other process has the file locked; a file system without locks cannot tell."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def _checked(about: Any) -> dict[str, Any] | None:
    if not isinstance(about, dict) or type(about.get("replaces")) is not bool:
        return None
    lists = [about.get("files") or [], about.get("old"), [about.get("place")]]
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists):
        return None
    return about if os.path.basename(about["place"]) == about["place"] not in ("", ".", "..") else None


def _below(folder: Path) -> list[str]:
    """Returns the paths of all files below a folder."""
    return [str(Path(parent, name).relative_to(folder)) for parent, _, names in os.walk(folder) for name in names]


def _is_below(folder: Path, name: str) -> bool:
    """Whether a path stays below a folder, and no link leads there."""
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
