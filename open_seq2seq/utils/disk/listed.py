"""A folder with a list of the files that this package wrote there, which distinguishes them from a user's files."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from open_seq2seq.utils.disk.files import FOREIGN, LINK, ForeignError, checksum_of, placing, writing
from open_seq2seq.utils.disk.folders import remove_listed
from open_seq2seq.utils.own_files import NotOwnFileError, open_own

_MOST_LIST_BYTES = 1 << 22


class ListedFolder:
    """Files below a folder, and a list of them, which maps each path to the checksums of its last two versions.

    A file that is not in the list, or has another checksum, is neither replaced nor removed. Symbolic links are not
    followed.

    Args:
      folder: created together with the first file.
      list_name: file name of the list.
    """

    def __init__(self, folder: Path, list_name: str) -> None:
        self.folder, self._list, self._made = folder, list_name, {}
        with contextlib.suppress(OSError, NotOwnFileError), self.open(list_name) as file:
            self._made = _parsed(file) or {}

    @property
    def names(self) -> list[str]:
        """Paths of the files in the list."""
        return list(self._made)

    def is_own(self, name: str) -> bool:
        """Returns whether a file is in the list and has a listed checksum."""
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
        if any((self.folder / parent).is_symlink() for parent in PurePosixPath(name).parents):
            raise ForeignError(place, LINK)
        if os.path.lexists(place) and not self.is_own(name):
            raise ForeignError(place, LINK if place.is_symlink() else FOREIGN)
        place.parent.mkdir(parents=True, exist_ok=True)
        with placing(place, lambda file: checksum_of(file) in self._made.get(name, ())) as new:
            yield new
            with open(new, "rb") as file:
                checksum = checksum or checksum_of(file)
            # The checksum of the old file stays in the list, so that either file is recognised after a crash. If a
            # resumed run writes a file again, the list remains as it is.
            before = self._made.get(name, [])
            self._write_list({**self._made, name: before if before[-1:] == [checksum] else [*before[-1:], checksum]})

    def add(self, names: list[str]) -> None:
        """Adds existing files to the list."""
        added = {}
        for name in names:
            with self.open(name) as file:
                added[name] = [checksum_of(file)]
        self._write_list({**self._made, **added})

    def link(self, name: str, other: str) -> None:
        """Creates the file ``name`` as a hard link to the listed file ``other``, and adds it to the list.

        Raises:
          OSError: see ``putting``; or the file system does not support hard links.
        """
        with self.putting(name, self._made[other][-1]) as new:
            further = f"{new}.link"
            os.link(self.folder / other, further, follow_symlinks=False)
            os.replace(further, new)

    def remove(self, names: list[str]) -> None:
        """Removes unchanged files, and folders that become empty; removes all given names from the list."""
        remove_listed(self.folder, [name for name in names if self.is_own(name)])
        self._write_list({name: sums for name, sums in self._made.items() if name not in names})

    def _write_list(self, made: dict[str, list[str]]) -> None:
        with writing(self.folder / self._list, lambda file: _parsed(file) is not None) as file:
            file.write(json.dumps(made, indent=1).encode())
        self._made = made


def _parsed(file: BinaryIO) -> dict[str, list[str]] | None:
    """Returns the content of a list; None if the file is not a list."""
    try:
        content = json.loads(file.read(_MOST_LIST_BYTES))
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and all(isinstance(sums, list) for sums in content.values()) else None
