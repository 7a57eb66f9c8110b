"""A folder with a list of what was written there, by which the toolkit's own files are told from all others."""

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
    """Files below a folder, with a list: path → checksums, two while a file is replaced.

    What is not in the list, or has another content than it says, somebody else put there: it is neither replaced nor
    removed. No link is followed.

    Args:
      folder: made when the first file is.
      list_name: of the list in it.
    """

    def __init__(self, folder: Path, list_name: str) -> None:
        self.folder, self._list = folder, list_name
        self._made = self._read_list()

    @property
    def names(self) -> list[str]:
        """Paths of the files in the list."""
        return list(self._made)

    def is_own(self, name: str) -> bool:
        """Whether a file is as it was written."""
        with contextlib.suppress(OSError, NotOwnFileError), self.open(name) as file:
            return checksum_of(file) in self._made.get(name, ())
        return False

    def open(self, name: str) -> BinaryIO:
        """Opens a file for reading; see ``own_files.open_own``."""
        return open_own(self.folder.parent, f"{self.folder.name}/{name}")

    @contextlib.contextmanager
    def putting(self, name: str, checksum: str = "") -> Iterator[Path]:
        """Gives an empty file that gets a name in the folder, and in its list, when the context is left.

        Args:
          name: path below the folder; a file of the list that is there is replaced.
          checksum: of what will be in it, where that is known.

        Raises:
          ForeignError: something that is not in the list has the name, or a folder is a link.
          OSError: it cannot be written.
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
            # A crash in between must leave neither file unknown.
            self._write_list({**self._made, name: [*self._made.get(name, ()), checksum]})
        self._write_list({**self._made, name: [checksum]})

    def link(self, name: str, other: str) -> None:
        """Gives a file of the list a further name.

        Raises:
          OSError: see ``putting``; or the file system gives a file but one name.
        """
        with self.putting(name, self._made[other][-1]) as temporary:
            further = temporary.with_suffix(".link")
            os.link(self.folder / other, further, follow_symlinks=False)
            os.replace(further, temporary)

    def adopt(self, name: str, checksum: str) -> None:
        """Adds a file that is there to the list."""
        self._write_list({**self._made, name: [checksum]})

    def remove(self, names: list[str]) -> None:
        """Removes files as they were written, and folders that are empty then; takes all of them from the list."""
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
    """Whether a file has the form of a list, and not a user's own content."""
    try:
        made = json.loads(file.read(_MOST_LIST_BYTES))
    except (ValueError, RecursionError):
        return False
    return isinstance(made, dict) and all(isinstance(sums, list) for sums in made.values())
