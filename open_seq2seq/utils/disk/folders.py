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
from open_seq2seq.utils.disk.files import TEMPORARY, new_file, sync_entries
from open_seq2seq.utils.own_files import NotOwnFileError, read_own

MARK = "made-by-open_seq2seq.json"
_WRITTEN, _OLD = "written", "old"
_MOST_MARK_BYTES = 1 << 22

FilesOf = Callable[[Path], list[str] | None]
"""Folder → the files in it that this package made and may delete, by path; None where the folder is not its own."""


class _Workplace:
    """A new folder ``.tmp-<number>`` with its mark, locked as long as this process has to do with it."""

    def __init__(self, place: Path, files: Iterable[str]) -> None:
        self.folder = place.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
        self.folder.mkdir(mode=0o700)
        self.written, self.old = self.folder / _WRITTEN, self.folder / _OLD
        self._place, self._about = place, {"place": place.name, "files": sorted(files), "old": [], "replaces": False}
        self._mark = _new_mark(self.folder, self._about)

    def move_here(self, files: list[str], replaces: bool) -> None:
        """Moves what has the place now to ``old``; ``replaces`` says whether it goes back after a kill in between."""
        self._about |= {"old": files, "replaces": replaces}
        before, self._mark = self._mark, _new_mark(self.folder, self._about)
        before.close()
        os.rename(self._place, self.old)

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
      place: a folder there that is this package's own is replaced. Anything else is renamed, and a line says so.
      files: paths of the files that will be made in it.
      files_of: knows own folders.

    Raises:
      OSError: it cannot be written; what had the place has it still.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    work = _Workplace(place, files)
    try:
        work.written.mkdir()
        yield work.written
        old = files_of(place) if place.is_dir() and not place.is_symlink() else None
        if old is not None:
            with contextlib.suppress(PermissionError):  # of a folder that may not be changed
                work.move_here(old, replaces=True)
        if os.path.lexists(place):
            aside = move_aside(place, _aside(place))
            deco_print(f"WARNING: {place} was not made by this run: it is renamed to {aside.name}.")
        try:
            os.rename(work.written, place)
        except OSError:
            if work.old.exists():
                os.rename(work.old, place)
            raise
        sync_entries(place.parent)
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
    work = _Workplace(place, ())
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
        with contextlib.suppress(OSError, NotOwnFileError, ValueError, RecursionError):
            about = _checked(json.loads(read_own(directory, f"{folder.name}/{MARK}", _MOST_MARK_BYTES)))
            with open(folder / MARK, "rb") as mark:
                if about is not None and _lock(mark):
                    _clear(folder, directory, about)


def _clear(folder: Path, directory: Path, about: dict[str, Any]) -> None:
    place, old, written = directory / about["place"], folder / _OLD, folder / _WRITTEN
    if written.is_dir() and not written.is_symlink():
        remove_listed(written, about["files"])
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
    lists = [about.get("files"), about.get("old"), [about.get("place")]]
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists):
        return None
    return about if os.path.basename(about["place"]) == about["place"] not in ("", ".", "..") else None


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
