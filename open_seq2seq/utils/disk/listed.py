"""A folder with a list of the files that this package wrote there, which distinguishes them from a user's files."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from open_seq2seq.utils.disk.files import (
    FOREIGN,
    LINK,
    ForeignError,
    checksum_of,
    placing,
    writing,
)
from open_seq2seq.utils.disk.folders import remove_listed
from open_seq2seq.utils.own_files import NotOwnFileError, open_own, read_own

_MOST_LIST_BYTES = 1 << 22


class ListedFolder:
    """Files below a folder, and a list of them, which maps each path to the file's checksum.

    While a file is being replaced, the list contains two checksums for it.

    A file that is not in the list, or whose checksum differs, is neither replaced nor removed. Symbolic links are not
    followed.

    Args:
      folder: created together with the first file.
      list_name: file name of the list.
    """

    def __init__(self, folder: Path, list_name: str) -> None:
        self.folder, self._list = folder, list_name
        self._made = self._read_list()

    @property
    def names(self) -> list[str]:
        """Paths of the files in the list."""
        return list(self._made)

    def is_own(self, name: str) -> bool:
        """Returns whether a file is in the list and has the listed checksum."""
        with contextlib.suppress(OSError, NotOwnFileError), self.open(name) as file:
            return checksum_of(file) in self._made.get(name, ())
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
        if self._is_link(name):
            raise ForeignError(place, LINK)
        if os.path.lexists(place) and not self.is_own(name):
            raise ForeignError(place, LINK if place.is_symlink() else FOREIGN)
        place.parent.mkdir(parents=True, exist_ok=True)
        with placing(place, lambda file: self._knows(name, file)) as temporary:
            yield temporary
            with open(temporary, "rb") as file:
                checksum = checksum or checksum_of(file)
            # Both checksums are listed until the rename is done, so that either file is recognised after a crash.
            self._write_list({**self._made, name: [*self._made.get(name, ()), checksum]})
        self._write_list({**self._made, name: [checksum]})

    def link(self, name: str, other: str) -> None:
        """Creates the file ``name`` as a hard link to the listed file ``other``, and adds it to the list.

        Raises:
          OSError: see ``putting``; or the file system does not support hard links.
        """
        with self.putting(name, self._made[other][-1]) as temporary:
            further = temporary.with_suffix(".link")
            os.link(self.folder / other, further, follow_symlinks=False)
            os.replace(further, temporary)

    def adopt(self, name: str, checksum: str) -> None:
        """Adds an existing file to the list."""
        self._write_list({**self._made, name: [checksum]})

    def remove(self, names: list[str]) -> None:
        """Removes unchanged files, and folders that become empty; removes all given names from the list."""
        own = [name for name in names if self.is_own(name)]
        for parent in {str(PurePosixPath(name).parent) for name in own}:
            inside = [PurePosixPath(name).name for name in own if str(PurePosixPath(name).parent) == parent]
            with contextlib.suppress(OSError):
                if not self._is_link(parent):
                    remove_listed(self.folder / parent, inside)
        self._write_list({name: sums for name, sums in self._made.items() if name not in names})

    def _is_link(self, name: str) -> bool:
        folders = [self.folder, *(self.folder / parent for parent in PurePosixPath(name).parents)]
        return any(folder.is_symlink() for folder in folders)

    def _knows(self, name: str, file: BinaryIO) -> bool:
        return checksum_of(file) in self._made.get(name, ())

    def _read_list(self) -> dict[str, list[str]]:
        try:
            made = json.loads(read_own(self.folder.parent, f"{self.folder.name}/{self._list}", _MOST_LIST_BYTES))
        except (OSError, ValueError, RecursionError, NotOwnFileError):
            return {}
        if not isinstance(made, dict):
            return {}
        return {name: sums for name, sums in made.items() if isinstance(sums, list) and _is_plain(name)
                and name != self._list}

    def _write_list(self, made: dict[str, list[str]]) -> None:
        with writing(self.folder / self._list, _is_list) as file:
            file.write(json.dumps(made, indent=1).encode())
        self._made = made


def _is_plain(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _is_list(file: BinaryIO) -> bool:
    """Returns whether a file has the format of a ``ListedFolder``'s list."""
    try:
        made = json.loads(file.read(_MOST_LIST_BYTES))
    except (ValueError, RecursionError):
        return False
    return isinstance(made, dict) and all(isinstance(sums, list) for sums in made.values())
