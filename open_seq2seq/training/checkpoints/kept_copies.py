"""A folder of copies, with a list that distinguishes them from other files there."""

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
    """Copies of files, each under a name of its own, beside the checkpoints of a run.

    A file in the folder that is not in the list, or whose content differs from what the list says, is somebody else's:
    it is neither replaced nor removed. Links are not followed.

    Args:
      folder: made when the first copy is; its list is ``copies.json``; see ``disk.ListedFolder``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._listed = disk.ListedFolder(folder, LIST)
        self._kept: dict[Path, str] = {}

    def has(self, name: str) -> bool:
        """Whether there is a file of this name; copies that older versions made are not in the list.

        Raises:
          CheckpointError: it is a link, or no file.
        """
        try:
            with self._listed.open(name):
                return True
        except FileNotFoundError:
            return False
        except NotOwnFileError as error:
            raise CheckpointError(f"In {self.folder} {error}: put a file in its place, or remove it.") from error
        except OSError as error:
            raise CheckpointError(f"{self.folder / name} cannot be read: {error.strerror}.") from error

    def keep(self, name: str, source: Path) -> str | None:
        """Makes a copy of a file under a name, unless there is one; a file copied before only gets a further name.

        Returns:
          Why there is no copy, as a clause; None when there is one.

        Raises:
          OSError: the source cannot be read, or the folder not written.
        """
        wanted = source.stat()
        try:
            if self._same(name, wanted):
                self._adopt(name, source)
            elif not self._link(name, source):
                with self._listed.putting(name) as copy:
                    shutil.copyfile(source, copy)
                    os.utime(copy, ns=(wanted.st_atime_ns, wanted.st_mtime_ns))  # by which the next run recognises it
        except disk.ForeignError as error:
            return error.strerror
        self._kept.setdefault(source, name)
        return None

    def remove_others(self, wanted: Container[str]) -> None:
        """Removes the copies that an earlier run made for another config."""
        others = [name for name in self._listed.names if name not in wanted]
        if others:
            with contextlib.suppress(OSError):
                self._listed.remove(others)

    def _adopt(self, name: str, source: Path) -> None:
        """Adds a copy to the list that an older version made, which kept no list."""
        if name not in self._listed.names:
            with self._listed.open(name) as copy, open(source, "rb") as file:
                checksum = disk.checksum_of(copy)
                if checksum == disk.checksum_of(file):
                    self._listed.adopt(name, checksum)

    def _link(self, name: str, source: Path) -> bool:
        """Gives a copy of the same file a further name. A user's file is never linked: it may change in place."""
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
