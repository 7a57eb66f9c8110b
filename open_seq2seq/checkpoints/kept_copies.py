"""A folder of copies of files, with a list that distinguishes the copies from other files in the folder."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Container
from pathlib import Path

from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import CheckpointError
from open_seq2seq.utils.own_files import NotOwnFileError

LIST = "copies.json"


class KeptCopies:
    """Named copies of files, in a folder beside the checkpoints of a run.

    A file that is not in the list, or whose content does not match its checksum there, is assumed to be the user's: it
    is neither replaced nor removed. Symbolic links are not followed.

    Args:
      folder: folder of the copies, created with the first copy. Its list is ``copies.json``; see ``disk.ListedFolder``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._listed = disk.ListedFolder(folder, LIST)
        self._kept: dict[Path, str] = {}

    def has(self, name: str) -> bool:
        """Returns whether the folder has a file of this name, listed or not.

        Raises:
          CheckpointError: the file is a symbolic link, not a regular file, or unreadable.
        """
        try:
            with self._listed.open(name):
                return True
        except FileNotFoundError:
            return False
        except NotOwnFileError as error:
            raise CheckpointError(f"In {self.folder}, {error}: replace it with a file, or remove it.") from error
        except OSError as error:
            raise CheckpointError(f"{self.folder / name} cannot be read: {error.strerror}.") from error

    def keep(self, name: str, source: Path) -> str | None:
        """Adds a copy of ``source`` under ``name``, unless an up-to-date copy exists.

        If this object has already copied the source under another name, the new copy is a hard link to that copy.

        Returns:
          The reason why there is no copy, as a clause; None on success.

        Raises:
          OSError: the source cannot be read, or the folder cannot be written.
        """
        wanted = source.stat()
        try:
            if not self._same(name, wanted) and not self._link(name, source):
                with self._listed.putting(name) as copy:
                    shutil.copyfile(source, copy)
                    os.utime(copy, ns=(wanted.st_atime_ns, wanted.st_mtime_ns))  # lets the next run recognise the copy
        except disk.ForeignError as error:
            return error.strerror
        self._kept.setdefault(source, name)
        return None

    def remove_others(self, wanted: Container[str]) -> None:
        """Removes the listed copies not in ``wanted``, which an earlier run made for another config."""
        others = [name for name in self._listed.names if name not in wanted]
        if others:
            with contextlib.suppress(OSError):
                self._listed.remove(others)

    def _link(self, name: str, source: Path) -> bool:
        """Hard-links an earlier copy of the source, if there is one; returns whether a link was made.

        The source itself is never linked, because it may be changed in place.
        """
        copy = self._kept.get(source)
        if copy is None or copy not in self._listed.names:
            return False
        try:
            self._listed.link(name, copy)
        except disk.ForeignError:
            raise
        except OSError:  # a file system without hard links
            return False
        return True

    def _same(self, name: str, wanted: os.stat_result) -> bool:
        if self.folder.is_symlink():
            return False
        with contextlib.suppress(OSError, NotOwnFileError), self._listed.open(name) as file:
            here = os.fstat(file.fileno())
            # Some file systems store times in whole seconds.
            return here.st_size == wanted.st_size and int(here.st_mtime) == int(wanted.st_mtime)
        return False
