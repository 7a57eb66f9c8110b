"""Output files and folders: checked before the work starts, and visible under their names only when complete."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.own_files import NotOwnFileError, open_own, read_own

MARK = ".open_seq2seq-results"
"""A file in each folder of results: only a folder that has it is ever replaced."""

_MARK_TEXT = "the results of an inference run; the next one with this name replaces the files that are as they are here"
_LONGEST_NAME = 200  # bytes; file systems allow 255, and the temporary name is longer
_MOST_MARK_BYTES = 1 << 28


def check_output_file(name: str, flag: str = "--infer_output_file") -> None:
    """Raises UserError if results cannot be written to the path that a flag names; its folder may be missing.

    A folder of earlier results is accepted here, and checked again when the model opens it.
    """
    if not name:
        raise UserError(f"{flag} is empty: name the file that results are written to.")
    try:
        _check_place(name, flag)
    except (OSError, ValueError) as error:  # ValueError: the character NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{flag} is {name!r:.200}, which cannot be written: {reason}.") from error


def _check_place(name: str, flag: str) -> None:
    path = Path(os.path.realpath(name))
    if _exists(path) and path.is_dir() and not _is_replaceable(str(path)):
        raise UserError(f"{flag} is {name}, which is a folder: name a file in it.")
    existing = next(place for place in (path, *path.parents) if _exists(place))
    if existing != path and not existing.is_dir():
        raise UserError(f"{flag} is {name}, but {existing} is a file, not a folder: name another place.")
    descriptor = _standard_stream(name)
    if descriptor is not None and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise UserError(f"{flag} is {name}, but this process was started with that stream closed: name a file.")
    beside = existing.parent if existing == path and path.is_file() and not passes_through(name) else existing
    for place in (existing, beside):
        if not os.access(place, os.W_OK):
            raise UserError(f"{flag} is {name}, but {place} cannot be written: name another place.")
    if not passes_through(name) and _is_full(beside):
        raise UserError(f"{flag} is {name}, but there is no space left in {beside}: make room, or name another place.")


def _exists(path: Path) -> bool:
    """Returns whether the path exists; raises an error for impossible names."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _is_full(folder: Path) -> bool:
    """Returns whether a file system has no block or no file left for this user; some do not report it."""
    found = os.statvfs(folder)
    root = os.geteuid() == 0
    blocks, files = (found.f_bfree, found.f_ffree) if root else (found.f_bavail, found.f_favail)
    return (found.f_blocks > 0 and blocks == 0) or (found.f_files > 0 and files == 0)


def check_no_input(outputs: Iterable[str | None], inputs: Iterable[str | None]) -> None:
    """Raises UserError if an output is also an input; None stands for no file."""
    paths = [path for path in inputs if path is not None]
    for output in outputs:
        if output is not None and (path := _same_file(output, paths)) is not None:
            raise UserError(f"{output} would be written, but it is {path}, which is read: name another place.")


def _same_file(name: str, paths: Iterable[str]) -> str | None:
    """Returns the first of the paths that is the same regular file, by a link or another spelling too."""
    try:
        status = os.stat(name)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(status.st_mode):
        for path in paths:
            with contextlib.suppress(OSError, ValueError):
                if os.path.samestat(status, os.stat(path)):
                    return path
    return None


def passes_through(name: str) -> bool:
    """Returns whether the path is a pipe, a terminal, ``/dev/null`` or this process's output, and not a file."""
    with contextlib.suppress(OSError, ValueError):
        mode = os.stat(name).st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or _standard_stream(name) is not None
    return False


def beside(name: str, ending: str) -> str:
    """Returns the name of a further output file: ``out.csv`` with another ending, such as ``out.words.csv``.

    Raises:
      UserError: the results go to a pipe or a device, which has no folder.
    """
    if passes_through(name):
        raise UserError(f"The results go to {name}, which has no place beside it for *{ending}: name a file.")
    return os.path.splitext(name)[0] + ending


def _standard_stream(name: str) -> int | None:
    """Returns the descriptor of this process's output that a path such as ``/dev/stdout`` leads to; None for others."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError, ValueError):
            if os.path.samestat(os.stat(name), os.fstat(descriptor)):
                return descriptor
    return None


def is_standard_output(name: str) -> bool:
    """Returns whether the path leads to this process's standard output."""
    return _standard_stream(name) == 1


_protected: list[Callable[[], Iterable[str]]] = []


@contextlib.contextmanager
def never_written(paths: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Within this context no output may be one of these files, under any name.

    Args:
      paths: returns the files that are read or kept; called for each output that exists already.
    """
    _protected.append(paths)
    try:
        yield
    finally:
        _protected.remove(paths)


def check_not_protected(name: str) -> None:
    """Raises UserError if an output is one of the files of ``never_written``."""
    path = _same_file(name, (path for paths in _protected for path in paths()))
    if path is not None:
        raise UserError(f"The results would overwrite {name}, which this run reads or "
                        f"keeps{'' if path == name else f' as {path}'}: name another file.")


def _is_replaceable(folder: str) -> bool:
    """Returns whether a folder is empty, or holds only unchanged results of inference."""
    return not os.listdir(folder) or results_in(Path(folder)) is not None


def results_in(folder: Path) -> list[str] | None:
    """Returns the files of a folder of results; None if it holds anything else, or a changed file."""
    try:
        listed = json.loads(read_own(folder, MARK, _MOST_MARK_BYTES))["files"]
        found = _checksums(folder)
        return [MARK, *found] if found == listed else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, NotOwnFileError):
        return [] if not os.listdir(folder) else None


def _checksums(folder: Path) -> dict[str, str]:
    """Returns the checksums of all files below a folder except its mark, by path.

    Raises:
      NotOwnFileError: something in it is a link, or not a file.
    """
    found = {}
    for parent, folders, names in os.walk(folder):
        for name in (*names, *(name for name in folders if os.path.islink(os.path.join(parent, name)))):
            path = os.path.relpath(os.path.join(parent, name), folder)
            if path != MARK:
                with open_own(folder, path) as file:
                    found[path] = disk.checksum_of(file)
    return found


@dataclass
class _Pending:
    """One output that is being written.

    Attributes:
      work: where it is until it gets its name.
      file: the open file; None for a folder.
    """

    work: disk.Workplace
    file: IO[Any] | None = None


class OutputFiles:
    """Files and folders that get their names together, when all are complete; a context manager.

    Each is written in a folder ``.<name>.unfinished`` beside its place. Leaving the context syncs them to disk and
    renames them one after the other, the first opened last. After an error they are removed, and earlier results stay.
    A process that is killed leaves that folder, which the next one that writes the same output clears and uses again.

    Links are followed, and their targets are replaced. Pipes, terminals, ``/dev/null`` and ``/dev/stdout`` are written
    directly, line by line.
    """

    def __init__(self) -> None:
        self._pending: list[_Pending] = []
        self._direct: list[IO[Any]] = []
        self._names: list[str] = []

    def open(self, name: str, mode: str = "w", newline: str | None = None) -> IO[Any]:
        """Opens a file for writing and makes its folder; leaving the context closes it.

        Args:
          name: its final name.
          mode: ``w`` for UTF-8 text, ``wb`` for bytes.
          newline: as in the function ``open``.

        Raises:
          UserError: it cannot be written, is a folder, or is being written by another process.
        """
        text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": newline}
        self._names.append(name)
        check_not_protected(name)
        with self.guarded():
            if passes_through(name):
                descriptor = _standard_stream(name)
                target: Any = name if descriptor is None else os.dup(descriptor)
                self._direct.append(disk.open_stream(target, mode, **text, buffering=1 if text else -1))
                return self._direct[-1]
            place = os.path.realpath(name)
            if os.path.isdir(place):
                raise UserError(f"The results go to {name}, which is a folder: name a file.")
            os.makedirs(os.path.dirname(place), exist_ok=True)
            pending = _Pending(_claim(place, name))
            self._pending.append(pending)
            pending.file = disk.new_file(pending.work.written, mode.replace("w", "x"),
                                         **({"newline": newline} if text else {}))
            with contextlib.suppress(FileNotFoundError):  # a file that is replaced keeps its permissions
                os.fchmod(pending.file.fileno(), stat.S_IMODE(os.stat(place).st_mode))
            return pending.file

    def folder(self, name: str) -> Path:
        """Makes a folder for results, and returns its path until it is complete and gets its name.

        Args:
          name: its final name; a folder of earlier results is replaced, and so is an empty one.

        Raises:
          UserError: it cannot be written, something else has the name, or it is being written by another process.
        """
        self._names.append(name)
        check_not_protected(name)
        with self.guarded():
            place = os.path.realpath(name)
            _check_folder(place, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            pending = _Pending(_claim(place, name))
            self._pending.append(pending)
            pending.work.written.mkdir()
            return pending.work.written

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Turns system errors within this context, such as a full disk, into a UserError."""
        try:
            yield
        except OSError as error:
            raise UserError(f"The results cannot be written to {', '.join(self._names)}: "
                            f"{error.strerror or error}.") from error

    def commit(self) -> None:
        """Gives all files and folders their names.

        Raises:
          UserError: it cannot be written.
        """
        with self.guarded():
            for file in self._direct:
                file.close()
            for pending in self._pending:
                _sync(pending)
            while self._pending:
                pending = self._pending[-1]
                if pending.file is None:
                    pending.work.put(results_in)
                else:
                    pending.work.put_file()
                self._pending.pop().work.close()

    def discard(self) -> None:
        """Removes files and folders that do not have their names yet."""
        for file in self._direct:
            with contextlib.suppress(OSError):
                file.close()
        for pending in self._pending:
            if pending.file is not None:
                with contextlib.suppress(OSError):
                    pending.file.close()
            with contextlib.suppress(OSError):
                pending.work.close()
        self._pending.clear()
        self._direct.clear()

    def __enter__(self) -> OutputFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.discard()


def _claim(place: str, name: str) -> disk.Workplace:
    """Makes the folder in which an output is written, and locks other processes out of it."""
    folder, last = os.path.split(place)
    if len(os.fsencode(last)) > _LONGEST_NAME:
        last = hashlib.sha256(os.fsencode(last)).hexdigest()
    temporary = Path(folder, f".{last}.unfinished")
    try:
        return disk.Workplace.claimed(temporary, Path(place))
    except BlockingIOError:
        raise UserError(f"{name} is being written by another process: wait for it to end, or name another "
                        "place.") from None
    except disk.ForeignError as error:
        if error.strerror == disk.LINK:
            raise
        raise UserError(f"{temporary}, where {name} is written until it is whole, holds what inference did not write: "
                        "remove it, or name another place.") from error


def _check_folder(place: str, name: str) -> None:
    """Raises UserError if a folder of results cannot have this path."""
    if os.path.lexists(place) and (os.path.islink(place) or not os.path.isdir(place)):
        raise UserError(f"The results are a folder, but {name} is none: remove it, or name another place.")
    if os.path.isdir(place) and not _is_replaceable(place):
        raise UserError(f"The folder {name} holds what inference did not write: name another one, or remove it.")


def _sync(pending: _Pending) -> None:
    """Syncs an output to disk; a folder gets the list that marks it as results."""
    written = pending.work.written
    if pending.file is not None:
        pending.file.close()
        disk.sync(written)
        return
    disk.write_new(written / MARK, json.dumps({"about": _MARK_TEXT, "files": _checksums(written)}, indent=1))
    for folder, _, names in os.walk(written, topdown=False):
        for path in (*(os.path.join(folder, name) for name in names), folder):
            disk.sync(path)
