"""Folders that get their names when they are complete, and the removal of folders.

A folder is written under a temporary name beside its final path. A folder that is replaced or removed is first renamed
to ``.tmp-<random digits>.old.<name>``. If a process is killed at any moment, the next process removes a folder that is
not complete, and removes an old folder, or gives it back if no new one has its name and its removal has not begun.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.disk.files import TEMPORARY, UNFINISHED, locked, remove_temporary, sync, temporary

FilesOf = Callable[[Path], list[str] | None]
"""Function that returns the paths of the files in a folder that this package created and may delete.

It returns None if this package did not create the folder. The last file is the one by which the folder is recognised,
and is deleted last.
"""


@contextlib.contextmanager
def new_folder(place: Path, files_of: FilesOf, alone: bool = False) -> Iterator[Path]:
    """Yields the path of a new folder, which is synced to disk and renamed to ``place``, or removed after an error.

    Args:
      place: final path.
      files_of: recognises folders of this package, which are replaced. Anything else at the final path is renamed, with
        a warning.
      alone: see ``files.temporary``.

    Raises:
      BlockingIOError: see ``files.temporary``.
      OSError: the folder cannot be written; ``place`` is unchanged.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with temporary(place, is_folder=True, alone=alone) as new:
        yield new
        for folder, _, names in os.walk(new, topdown=False):
            for path in (*(os.path.join(folder, name) for name in names), folder):
                sync(path)
        _recover(place.parent, files_of, place.name)
        files = files_of(place) if place.is_dir() and not place.is_symlink() else None
        if files is not None:
            remove_folder(place, files, new)
        else:
            if os.path.lexists(place):
                aside = move_aside(place, _aside(place))
                deco_print(f"WARNING: {place} was not created by this run and has been renamed to {aside.name}.")
            os.rename(new, place)
        sync(place.parent)


def remove_folder(place: Path, files: list[str], new: Path | None = None) -> None:
    """Removes the given files of a folder, and the folder itself if it is then empty.

    The folder is renamed first, so that after a crash ``place`` is never a partly removed folder. If the folder has
    other files, these remain, and the folder gets its name back, or a name beside it if there is a new folder.

    Args:
      place: the folder; not a symbolic link.
      files: paths in the folder; only regular files are removed.
      new: a folder that gets the name of the old one.

    Raises:
      OSError: the folder cannot be removed or replaced.
    """
    old = place.with_name(f"{TEMPORARY}{secrets.token_hex(8)}.old.{place.name}")
    with locked(place):
        os.rename(place, old)
        try:
            if new is not None:
                os.rename(new, place)
            remove_listed(old, files)
        except OSError:
            if not os.path.lexists(place):
                os.rename(old, place)
                raise
        _give_back(old, place)


def remove_listed(folder: Path, files: Iterable[str]) -> None:
    """Removes regular files in the given order, and ``folder`` and the folders of the files as soon as they are empty.

    Args:
      folder: the folder that contains the files.
      files: paths in ``folder``. Paths that lead out of it or through a symbolic link are ignored.
    """
    for name in filter(lambda name: _is_below(folder, name), files):
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISREG(os.lstat(folder / name).st_mode):
                os.unlink(folder / name)
        for parent in (PurePosixPath(name), *PurePosixPath(name).parents[:-1]):
            _remove_if_empty(folder / parent)
    _remove_if_empty(folder)


def remove_unfinished(directory: Path, files_of: FilesOf | None = None) -> None:
    """Removes unfinished files and folders of killed processes, which are recognised by the form of their names.

    Args:
      directory: the folder that contains them; nothing is done if it is a symbolic link.
      files_of: recognises folders whose removal is to be completed, or which are to be restored; None leaves them.
    """
    if directory.is_symlink():
        return
    for entry in list(directory.glob(f"{TEMPORARY}*")):
        match = UNFINISHED.fullmatch(entry.name)
        if match and not match["name"]:
            with contextlib.suppress(OSError):
                remove_temporary(entry)
    if files_of is not None:
        _recover(directory, files_of)


def _recover(directory: Path, files_of: FilesOf, wanted: str | None = None) -> None:
    """Completes or undoes removals in which processes were killed: all of them, or those of folders of one name."""
    for old in list(directory.glob(f"{TEMPORARY}*.old.*")):
        match = UNFINISHED.fullmatch(old.name)
        if not match or wanted not in (None, match["name"]):
            continue
        with contextlib.suppress(OSError), locked(old):
            files, place = files_of(old) or [], directory / match["name"]
            has_begun = not files or not os.path.lexists(old / files[0])
            if has_begun or os.path.lexists(place):
                remove_listed(old, files)
            _give_back(old, place)


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


def _aside(place: Path) -> Path:
    return place.with_name(f"{place.name}.aside")


def _give_back(old: Path, place: Path) -> None:
    """Renames a folder in which files of the user remain, if there are any, to its old path or to one beside it."""
    if os.path.lexists(place) and os.path.lexists(old):
        deco_print(f"WARNING: {place} had files that no run created: they are now in {move_aside(old, _aside(place))}.")
    elif os.path.lexists(old):
        os.rename(old, place)


def _is_below(folder: Path, name: str) -> bool:
    """Returns whether a path is below a folder and does not pass through a symbolic link."""
    path = PurePosixPath(name)
    return (bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name
            and not any((folder / parent).is_symlink() for parent in path.parents))


def _remove_if_empty(folder: Path) -> None:
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
            raise
