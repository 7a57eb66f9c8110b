"""A folder of copies with a list of them, by which the toolkit's own files are told from all others there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Container
from io import BufferedReader
from pathlib import Path

from open_seq2seq.training.checkpoints.files import TEMPORARY, sha256_of
from open_seq2seq.utils.errors import CheckpointError
from open_seq2seq.utils.own_files import NotOwnFileError, open_own, read_own

LIST = "copies.json"
_MOST_LIST_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 20


class KeptCopies:
    """Copies of files, each under a name of its own, beside the checkpoints of a run.

    What is in the folder and not in its list, or has another content than the list says, somebody else put there: it is
    neither replaced nor removed. No link is followed.

    Args:
      folder: made when the first copy is; its list is ``copies.json``: name → checksums, two while it is replaced.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made = self._read_list()
        self._kept: dict[Path, str] = {}

    def has(self, name: str) -> bool:
        """Whether there is a file of this name; those of older versions are in no list.

        Raises:
          CheckpointError: it is a link, or no file.
        """
        try:
            with self._open(name):
                return True
        except FileNotFoundError:
            return False
        except NotOwnFileError as error:
            raise CheckpointError(f"In {self.folder} {error}: put a file in its place, or remove it.") from error
        except OSError as error:
            raise CheckpointError(f"{self.folder / name} cannot be read: {error.strerror}.") from error

    def keep(self, name: str, source: Path) -> str | None:
        """Makes a file a copy of another one, unless it is; a further name of a copy that is there already.

        Returns:
          Why it could not be, as a clause; None when it is one now.

        Raises:
          OSError: the source cannot be read, or the folder not written.
        """
        wanted = source.stat()
        if self.folder.is_symlink() or (self.folder / name).is_symlink():
            return "there is a link in its place, through which nothing is written"
        if (self.folder / name).exists():
            if self._same(name, wanted):
                self._adopt(name, source)
                self._kept.setdefault(source, name)
                return None
            if not self._is_own(name):
                return "there is a file in its place that no run made; it is left alone"
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / f"{TEMPORARY}{name}"
        unfinished.unlink(missing_ok=True)
        checksum = self._further_name(source, unfinished) or _copy(source, unfinished)
        os.utime(unfinished, ns=(wanted.st_atime_ns, wanted.st_mtime_ns))  # by which it is known again
        # A crash in between must leave neither copy unknown.
        self._write_list({**self._made, name: [*self._made.get(name, ()), checksum]})
        os.replace(unfinished, self.folder / name)
        self._write_list({**self._made, name: [checksum]})
        self._kept.setdefault(source, name)
        return None

    def remove_others(self, wanted: Container[str]) -> None:
        """Removes the copies that an earlier run made for another config."""
        for name in [name for name in self._made if name not in wanted]:
            with contextlib.suppress(OSError):
                if self._is_own(name):
                    (self.folder / name).unlink()
                self._write_list({other: checksum for other, checksum in self._made.items() if other != name})

    def _adopt(self, name: str, source: Path) -> None:
        """Notes a copy that an older version made, which kept no list."""
        if name not in self._made:
            with self._open(name) as copy, open(source, "rb") as file:
                checksum = sha256_of(copy)
                if checksum == sha256_of(file):
                    self._write_list({**self._made, name: [checksum]})

    def _further_name(self, source: Path, target: Path) -> str | None:
        """Gives a copy of the same file a further name; returns its checksum, None where there is no such copy.

        Files of others are copied: they may be changed in place.
        """
        copy = self._kept.get(source)
        if copy is None or copy not in self._made:
            return None
        try:
            os.link(self.folder / copy, target, follow_symlinks=False)
        except OSError:  # a file system that gives a file but one name
            return None
        return self._made[copy][-1]

    def _is_own(self, name: str) -> bool:
        """Whether a file is as a run has made it."""
        with contextlib.suppress(OSError, NotOwnFileError), self._open(name) as file:
            return sha256_of(file) in self._made.get(name, ())
        return False

    def _same(self, name: str, wanted: os.stat_result) -> bool:
        with contextlib.suppress(OSError, NotOwnFileError), self._open(name) as file:
            here = os.fstat(file.fileno())
            # Some file systems keep no more than seconds.
            return here.st_size == wanted.st_size and int(here.st_mtime) == int(wanted.st_mtime)
        return False

    def _open(self, name: str) -> BufferedReader:
        return open_own(self.folder.parent, f"{self.folder.name}/{name}")

    def _read_list(self) -> dict[str, list[str]]:
        try:
            made = json.loads(read_own(self.folder.parent, f"{self.folder.name}/{LIST}", _MOST_LIST_BYTES))
        except (OSError, ValueError, RecursionError, NotOwnFileError):
            return {}
        if not isinstance(made, dict):
            return {}
        return {name: checksums for name, checksums in made.items()
                if isinstance(checksums, list) and os.path.basename(name) == name and name not in (LIST, ".", "..", "")}

    def _write_list(self, made: dict[str, list[str]]) -> None:
        unfinished = self.folder / f"{TEMPORARY}{LIST}"
        unfinished.unlink(missing_ok=True)
        with open(unfinished, "x", encoding="utf-8") as file:
            json.dump(made, file, indent=1)
        os.replace(unfinished, self.folder / LIST)
        self._made = made


def _copy(source: Path, target: Path) -> str:
    """Copies a file to a new one; returns its checksum."""
    checksum = hashlib.sha256()
    with open(source, "rb") as file, open(target, "xb") as out:
        while block := file.read(_BLOCK_BYTES):
            checksum.update(block)
            out.write(block)
    return checksum.hexdigest()
