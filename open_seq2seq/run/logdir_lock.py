"""What tells runs of the same log directory apart: a lock, and the mark of a run without a checkpoint yet.

The mark is written before anything else of a new run, and removed once its first regular checkpoint is complete. If it
is there and no checkpoint is, everything else that a run has written to the directory belongs to its start, so that the
run can be begun anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import uuid
from pathlib import Path
from typing import IO, BinaryIO

from open_seq2seq.checkpoints.state import STATE
from open_seq2seq.config.resolve import RunOptions
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.training.loop.metrics_file import METRICS
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.own_files import NotOwnFileError, read_own

START_MARK = ".run-start.json"
LOCK = ".lock"
_FIRST_FILES = (LOCK, START_MARK, METRICS)  # which a run writes before anything else
_CONTENT = re.compile(rb"process \d+ on host \S*")
_BEGINNING = b"process 0 on host "
_LONGEST = 400  # bytes
_RUN, _CONFIG = "run", "config_sha256"
_MOST_BYTES = 1 << 12


def refuse_checkpoint(root: Path) -> None:
    """Raises UserError if a log directory is itself a checkpoint."""
    if (root / STATE).is_file():
        raise UserError(f"The log directory {root} is a checkpoint: give its parent folder "
                        f"{root.absolute().parent} to resume from it, or choose another logdir.")


def _is_lock(file: BinaryIO) -> bool:
    content = file.read(_LONGEST + 1)
    # A computer that lost its power may have written only the beginning.
    return _CONTENT.fullmatch(content) is not None or _BEGINNING.startswith(re.sub(rb"\d+", b"0", content))


class LogDirLock:
    """Context manager that locks a log directory for this process.

    The kernel releases the lock when the process ends for any reason, so a killed run leaves no lock behind. The file
    remains, but only names the last process that held the lock. A directory created by this lock is removed again if
    the run fails before it writes anything there.

    Args:
      root: the log directory, created if missing; None locks nothing.

    Raises:
      UserError: on entry, if another process holds the lock, or if the directory is a checkpoint or cannot be written.
    """

    def __init__(self, root: str | os.PathLike[str] | None) -> None:
        self._root = None if root is None else Path(root).expanduser()
        self._file: IO[bytes] | None = None
        self._has_made_folder = False

    def __enter__(self) -> LogDirLock:
        if self._root is None:
            return self
        refuse_checkpoint(self._root)
        self._has_made_folder = not os.path.lexists(self._root)
        path = self._root / LOCK
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with disk.naming(path):
                self._file = disk.open_lock(path, _is_lock)  # held until __exit__
                self._lock()
        except disk.ForeignError as error:
            what = "is not the lock of a run" if error.strerror == disk.FOREIGN else "is a link, or not a file"
            raise UserError(f"{path} {what}: move it, or choose another logdir.") from error
        except OSError as error:
            self.__exit__(OSError)
            raise UserError(f"The log directory {self._root} cannot be written: {error.strerror} "
                            f"({error.filename}).") from error
        return self

    def _lock(self) -> None:
        assert self._file is not None
        try:
            if not disk.lock(self._file):
                deco_print(f"WARNING: {self._root} is on a file system without locks: nothing prevents a second run "
                           "from using it.")
            is_removed = not os.fstat(self._file.fileno()).st_nlink  # by a run that has just failed
        except BlockingIOError:
            is_removed = True
        if is_removed:
            holder = self._file.read(_LONGEST).decode(errors="replace").strip() or "another process"
            self._file.close()
            self._file = None
            raise UserError(f"The log directory {self._root} is in use by {holder}: wait for that run to end, or "
                            "choose another logdir.")
        disk.rewrite_lock(self._file, f"process {os.getpid()} on host {socket.gethostname()}".encode())

    def __exit__(self, kind: type[BaseException] | None = None, *exception: object) -> None:
        if self._file is not None:
            if kind is not None and self._root is not None and self._has_made_folder:
                self._leave_nothing(self._root)
            self._file.close()  # releases the lock
            self._file = None

    def _leave_nothing(self, root: Path) -> None:
        """Removes the directory that this lock has made, if the run failed before it wrote anything there."""
        with contextlib.suppress(OSError):
            if {*os.listdir(root)} <= {*_FIRST_FILES}:
                disk.remove_folder(root, [*_FIRST_FILES])


def write_mark(root: Path, run: str, options: RunOptions) -> None:
    """Marks a log directory as that of a run that starts.

    Raises:
      UserError: the mark cannot be written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        disk.remove_unfinished(root)
        with disk.writing(root / START_MARK, _is_mark) as file:
            file.write(json.dumps({_RUN: run, _CONFIG: config_checksum(options)}).encode())
    except OSError as error:
        raise UserError(f"The log directory {root} cannot be written: {error.strerror} ({error.filename}).") from error


def is_marked(root: Path) -> bool:
    """Returns whether a log directory holds the mark of a run that has not completed a checkpoint."""
    return _read(root) is not None


def started_run(root: Path, options: RunOptions) -> str:
    """Returns the name of the run that has started in a log directory, or a new name if its config was another one."""
    mark = _read(root) or {}
    return mark[_RUN] if mark.get(_CONFIG) == config_checksum(options) else uuid.uuid4().hex


def config_checksum(options: RunOptions) -> str:
    """Returns the SHA-256 of the config of a run, with the values that replace others, as hexadecimal digits."""
    return hashlib.sha256(to_yaml(options.config.as_sections()).encode()).hexdigest()


def _read(root: Path) -> dict[str, str] | None:
    try:
        return _parsed(read_own(root, START_MARK, _MOST_BYTES))
    except (OSError, NotOwnFileError):
        return None


def _parsed(content: bytes) -> dict[str, str] | None:
    try:
        mark = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return mark if isinstance(mark, dict) and {*mark} == {_RUN, _CONFIG} and all(
        isinstance(value, str) and len(value) <= 100 for value in mark.values()) else None


def _is_mark(file: BinaryIO) -> bool:
    return _parsed(file.read(_MOST_BYTES)) is not None
