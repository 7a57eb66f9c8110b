"""Output files and folders: checks before the work starts, and final names only for complete outputs."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.posix import fcntl

STANDARD_OUTPUT = "/dev/stdout"
"""Path of this process's stdout, which is written as ``-`` on the command line."""

MARK = ".open_seq2seq-results"
"""Name of the list in a folder of results (see ``disk.ListedFolder``). Folders with other files are not replaced."""

_OF_WRITES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # only writes fail with these, so that an output is meant


def check_output_file(name: str, flag: str = "--infer_output_file") -> None:
    """Raises UserError if results cannot be written to the path that a flag names; the parent folder may be missing.

    A folder of earlier results passes this check, and is checked again when it is opened for the new results.
    """
    if not name:
        raise UserError(f"{flag} is empty: give the path of the output file.")
    try:
        descriptor = _standard_stream(name)
        if descriptor is not None:
            # The file behind an open stream may belong to another user, so its access rights are not checked.
            # A stream that was closed at the start has been replaced by the read end of a pipe (``enduring_output``).
            if fcntl is not None and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                raise UserError(f"{flag} is {name}, but this process was started with that stream closed: choose a "
                                "file.")
            return
        path = Path(os.path.realpath(name))
        if _exists(path) and path.is_dir() and results_in(path) is None:
            raise UserError(f"{flag} is {name}, which is a folder: choose a file in it.")
        existing = next(place for place in (path, *path.parents) if _exists(place))
        if existing != path and not existing.is_dir():
            raise UserError(f"{flag} is {name}, but {existing} is a file, not a folder: choose another path.")
        for place in (existing, existing.parent) if existing.is_file() else (existing,):
            if not os.access(place, os.W_OK):
                raise UserError(f"{flag} is {name}, but {place} cannot be written: choose another path.")
    except (OSError, ValueError) as error:  # ValueError: the character NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{flag} is {name!r:.200}, which cannot be written: {reason}.") from error


def _exists(path: Path) -> bool:
    """Returns whether the path exists; raises an error for invalid names."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def check_no_input(outputs: Iterable[str | None], inputs: Iterable[str | None]) -> None:
    """Raises UserError if an output is also an input or another output; outputs that are None or "" are ignored."""
    paths, earlier = [path for path in inputs if path is not None], set[str]()
    for output in filter(None, outputs):
        if (path := _same_file(output, paths)) is not None:
            raise UserError(f"The output file {output} is the same file as the input {path}: choose another output "
                            "file.")
        place = os.path.realpath(output)
        if place in earlier and not passes_through(output):
            raise UserError(f"Two outputs would be the same file, {output}: choose another one for one of them.")
        earlier.add(place)


def _same_file(name: str, paths: Iterable[str]) -> str | None:
    """Returns the first of ``paths`` that leads, even through links, to the same regular file as ``name``, or None."""
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
    """Returns whether results written to the path go directly to a stream instead of to a new file.

    This is the case for pipes, for devices such as terminals and ``/dev/null``, and for this process's stdout and
    stderr.
    """
    with contextlib.suppress(OSError, ValueError):
        mode = os.stat(name).st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or _standard_stream(name) is not None
    return False


def beside(name: str, ending: str) -> str:
    """Returns the path of an additional output file: ``out.words.csv`` for ``out.csv`` and the ending ``.words.csv``.

    Raises:
      UserError: the results go to a pipe or a device, so the file cannot be put next to them.
    """
    if passes_through(name):
        raise UserError(f"The results go to {name}, which is not a file, so *{ending} cannot be put next to it: choose "
                        "a file.")
    return os.path.splitext(name)[0] + ending


def _standard_stream(name: str) -> int | None:
    """Returns the descriptor of stdout or stderr if a path such as ``/dev/stdout`` leads to it, otherwise None."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError, ValueError):
            if os.path.samestat(os.stat(name), os.fstat(descriptor)):
                return descriptor
    return None


def is_standard_output(name: str) -> bool:
    """Returns whether the path leads to this process's stdout."""
    return _standard_stream(name) == 1


_protected: list[Callable[[], Iterable[str]]] = []


@contextlib.contextmanager
def never_written(paths: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Context manager in which opening one of the given files as an output raises UserError, also through a link.

    Args:
      paths: function that returns the files that are read or kept; called for each output that already exists.
    """
    _protected.append(paths)
    try:
        yield
    finally:
        _protected.remove(paths)


def check_not_protected(name: str) -> None:
    """Raises UserError if an output is one of the files given to ``never_written``."""
    path = _same_file(name, (path for paths in _protected for path in paths()))
    if path is not None:
        raise UserError(f"The results would overwrite {name}, which this run reads or "
                        f"keeps{'' if path == name else f' as {path}'}: choose another file.")


def results_in(folder: Path) -> list[str] | None:
    """Returns the paths of the files in a folder of results, relative to it; the folder may be empty.

    Returns None if the folder contains files that inference did not write, or that have changed since.
    """
    listed = disk.ListedFolder(folder, MARK)
    if not listed.names and any(path.name != MARK for path in folder.iterdir()):
        return None  # without a list, none of the files is listed; there may be millions
    names = [name for name in _files_in(folder) if name != MARK]
    return [*names, MARK] if all(map(listed.is_own, names)) else None


def _files_in(folder: Path) -> list[str]:
    """Returns the paths of the files and links below a folder, relative to it."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]


class OutputFiles:
    """Context manager for files and folders that all get their names at its end, when all are complete.

    Each output is written to ``.tmp-<16 digits>.new<suffix>`` beside its final path. At the end of the context all
    outputs are synced to disk and renamed one after the other, in reverse order of opening: when the output that was
    opened first has its name, so have all others. After an error they are removed, and earlier results stay. What a
    process that is killed leaves behind, the next process that writes the same outputs removes.

    Symbolic links are followed, and their targets are replaced. Pipes, terminals, ``/dev/null`` and ``/dev/stdout`` are
    written directly, text line by line.
    """

    def __init__(self) -> None:
        self._outputs = contextlib.ExitStack()  # of those that have no name yet
        self._files: list[IO[Any]] = []
        self._names: list[str] = []

    def open(self, name: str, mode: str = "w", newline: str | None = None) -> IO[Any]:
        """Opens a file for writing and creates its folder; the end of the context closes the file.

        Args:
          name: final path of the file.
          mode: ``w`` for UTF-8 text, ``wb`` for bytes.
          newline: as for the built-in function ``open``.

        Raises:
          UserError: the file cannot be written, is a folder, or is being written by another process.
        """
        text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": newline}
        with self._opening(name):
            if passes_through(name):
                descriptor = _standard_stream(name)
                target: Any = name if descriptor is None else os.dup(descriptor)
                output: Any = disk.open_stream(target, mode, **text, buffering=1 if text else -1)
            else:
                place = os.path.realpath(name)
                if os.path.isdir(place):
                    raise UserError(f"The results go to {name}, which is a folder: choose a file.")
                os.makedirs(os.path.dirname(place), exist_ok=True)
                output = disk.writing(place, disk.always, True, True, mode.replace("w", "r+"), **text)
            self._files.append(self._outputs.enter_context(output))
            # A new file keeps the permissions of the file it replaces, if the file system has any.
            with contextlib.suppress(FileNotFoundError, PermissionError):
                if not passes_through(name):
                    os.fchmod(self._files[-1].fileno(), stat.S_IMODE(os.stat(name).st_mode))
        return self._files[-1]

    def folder(self, name: str) -> Path:
        """Creates a folder for results and returns its temporary path, which is valid until the folder gets its name.

        Args:
          name: final path of the folder; an empty folder or a folder of earlier results is replaced.

        Raises:
          UserError: the folder cannot be written, something else has this path, or another process is writing to it.
        """
        with self._opening(name):
            place = Path(os.path.realpath(name))
            if os.path.lexists(place) and not place.is_dir():
                raise UserError(f"The results are a folder, but {name} is not a folder: remove it, or choose another "
                                "path.")
            if place.is_dir() and results_in(place) is None:
                raise UserError(f"The folder {name} contains files that inference did not write, or that have changed "
                                "since: choose another folder, or remove this one.")
            return self._outputs.enter_context(_folder_of_results(place))

    @contextlib.contextmanager
    def _opening(self, name: str) -> Iterator[None]:
        self._names.append(name)
        check_not_protected(name)
        with self.guarded(), _unused(name):
            yield

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Context manager that converts system errors, such as a full disk, to a UserError.

        If the reader of a pipe is gone, as after ``| head``, the process ends silently instead.
        """
        try:
            yield
        except BrokenPipeError:
            raise SystemExit(128 + signal.SIGPIPE) from None
        except OSError as error:
            raise UserError(f"The results cannot be written to {', '.join(self._names)}: "
                            f"{error.strerror or error}.") from error

    def commit(self) -> None:
        """Gives all files and folders their names.

        Raises:
          UserError: an output cannot be written.
        """
        with self.guarded():
            for file in (file for file in self._files if not file.closed):  # so that nothing is replaced on a full disk
                file.flush()
            self._outputs.close()

    def discard(self) -> None:
        """Removes the files and folders that do not have their final names yet."""
        with contextlib.suppress(OSError):
            self._outputs.__exit__(GeneratorExit, GeneratorExit(), None)

    def __enter__(self) -> OutputFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None = None, *trace: object) -> None:
        if isinstance(error, OSError) and error.filename is None and error.errno in _OF_WRITES:
            error.filename = ", ".join(self._names)
        try:
            if kind is None:
                self.commit()
        finally:
            self.discard()


@contextlib.contextmanager
def _unused(name: str) -> Iterator[None]:
    """Context manager that raises UserError if another process is writing to the path of an output."""
    try:
        yield
    except BlockingIOError:
        raise UserError(f"{name} is being written by another process: wait for it to end, or choose another "
                        "path.") from None


@contextlib.contextmanager
def _folder_of_results(place: Path) -> Iterator[Path]:
    with disk.new_folder(place, results_in, alone=True) as new:
        yield new
        disk.ListedFolder(new, MARK).add(_files_in(new))


def check_new_folder(name: str, flag: str = "--output_dir") -> None:
    """Raises UserError unless a folder can be made at the path that a flag names: nothing or an empty folder is there.

    Scripts call this before they begin to work.
    """
    if name and os.path.isdir(name) and os.listdir(name):
        raise UserError(f"The folder {name} exists already and is not overwritten: choose another {flag}, or remove "
                        "the folder.")
    if os.path.exists(name) and not os.path.isdir(name):
        raise UserError(f"{flag} is {name}, which is a file, not a folder: choose another path.")
    check_output_file(name, flag)


@contextlib.contextmanager
def new_folder(name: str, flag: str = "--output_dir") -> Iterator[str]:
    """Context manager for a script's folder that appears under its name at the end, when everything in it is complete.

    After an error or Ctrl-C, nothing remains of it. What a killed process has left, ``.tmp-<16 digits>.new``, the next
    one that writes this folder removes.

    Yields:
      The path at which to write until then. Messages should give the final path instead.

    Raises:
      UserError: see ``check_new_folder``; another process is writing this folder; or it cannot be written.
    """
    check_new_folder(name, flag)
    try:
        with _unused(name), disk.new_folder(Path(os.path.realpath(name)), lambda _: [], alone=True) as folder:
            yield str(folder)
    except OSError as error:
        raise UserError(f"The folder {name} cannot be written: {error.strerror or error}.") from error
