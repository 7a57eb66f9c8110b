"""Finds the files in a folder and its subfolders, also those that symbolic links lead to, and names them in lists."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NoReturn

from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import DataError


def files_below(folder: str) -> Iterator[str]:
    """Yields the files of a folder and its subfolders, then those of symbolically linked folders.

    Files and folders whose names begin with a dot are left out. Each folder is visited only once, even if several links
    lead to it, and links to a folder that contains the link are not followed.

    Raises:
      DataError: a folder cannot be read.
    """
    seen: set[str] = set()
    tops = [folder]
    for top in tops:
        for parent, folders, names in os.walk(top, onerror=_refuse):  # does not follow symbolic links
            place = os.path.realpath(parent)
            if place in seen:
                folders.clear()
                continue
            seen.add(place)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            links = [path for name in folders if os.path.islink(path := os.path.join(parent, name))]
            tops += [path for path in links if not _contains(os.path.realpath(path), place)]
            yield from (os.path.join(parent, name) for name in sorted(names) if not name.startswith("."))


def folders_in(folder: str) -> list[str]:
    """Returns the sorted names of the folders in a folder, without hidden ones and those that a Mac adds to archives.

    Raises:
      DataError: the folder cannot be read.
    """
    names = next(os.walk(folder, onerror=_refuse))[1]
    return sorted(name for name in names if not name.startswith((".", "__MACOSX")))


def name_from(folder: str, path: str) -> str:
    """Returns the path of a file relative to a folder, or its absolute path if only the root folder contains both.

    Raises:
      DataError: the name is not UTF-8.
    """
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    start = os.path.realpath(folder)
    name = real if os.path.commonpath([real, start]) == os.sep else os.path.relpath(real, start)
    if name != shown(name):
        raise DataError(f"{shown(name)} cannot be in a list, because its path is not UTF-8: rename its folder.")
    return name


def _contains(folder: str, other: str) -> bool:
    return os.path.commonpath([folder, other]) == folder


def _refuse(error: OSError) -> NoReturn:
    raise DataError(f"The folder {shown(str(error.filename))} cannot be read: {error.strerror}.") from error
