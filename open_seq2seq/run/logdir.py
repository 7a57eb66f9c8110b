"""The log directory: checks before a run starts, a lock, and the mark of a run without a checkpoint yet.

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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, BinaryIO

from open_seq2seq.checkpoints.choosing import best_models
from open_seq2seq.checkpoints.folders import (
    ALL_FOLDERS,
    DIVERGENCE,
    KEPT_FILES,
    LOGS,
    checkpoint_folder,
    find_checkpoints,
    may_be_checkpoint,
    refuse_links,
    regular_step,
)
from open_seq2seq.checkpoints.hugging_face import HuggingFaceFolder
from open_seq2seq.checkpoints.original import OriginalFiles
from open_seq2seq.checkpoints.state import STATE
from open_seq2seq.config.resolve import RunOptions
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.run.overview import OVERVIEW
from open_seq2seq.training.loop.metrics_file import METRICS
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, UserError
from open_seq2seq.utils.own_files import NotOwnFileError, read_own

START_MARK = ".run-start.json"
LOCK = ".lock"
_FIRST_FILES = (LOCK, START_MARK, METRICS)  # which a run writes before anything else
_CONTENT = re.compile(rb"process \d+ on host \S*")
_BEGINNING = b"process 0 on host "
_LONGEST = 400  # bytes
_RUN, _CONFIG = "run", "config_sha256"
_MOST_BYTES = 1 << 12
# Entries that a log directory may contain when a new run starts. Events and samples are not among them, because those
# of two runs would be mixed.
_HARMLESS = (LOCK, START_MARK, DIVERGENCE, KEPT_FILES)


@dataclass(frozen=True)
class LogDir:
    """The folders that a run reads and writes.

    Attributes:
      root: the ``logdir`` of the config; None if this process writes no files, as in a benchmark or on ranks above 0.
      checkpoint_dir: folder of checkpoints and events: ``root``, or ``root/logs`` if a run with ``--enable_logs``
        writes or wrote them.
      checkpoint: checkpoint folder to resume from, or to evaluate; None for a new run.
      base_checkpoint: checkpoint from ``load_model`` with the initial weights, or None.
      run: name of the run, which distinguishes its checkpoints from those of other runs.
      begins_anew: whether the directory holds only the start of this run, which continues its table of metrics.
    """

    root: Path | None
    checkpoint_dir: Path | None = None
    checkpoint: Path | None = None
    base_checkpoint: Path | OriginalFiles | HuggingFaceFolder | None = None
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    begins_anew: bool = False

    def of_run(self, state: Mapping[str, Any] | None) -> LogDir:
        """Returns this object with the run's name in a checkpoint's ``state.json``; unchanged if ``state`` is None."""
        return self if state is None else replace(self, run=str(state.get("run", "")))


def _check_folders(folder: Path) -> None:
    """Raises CheckpointError if the path of a subfolder that a run uses exists, but is not a writable folder."""
    for path in (folder / name for name in ALL_FOLDERS if os.path.lexists(folder / name)):
        if not path.is_dir():
            raise CheckpointError(f"{path} is not a folder, but a run needs a folder of that name: move it, or choose "
                                  "another logdir.")
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise CheckpointError(f"The folder {path} cannot be written: change its access rights, or choose another "
                                  "logdir.")


def _refuse_foreign(folder: Path, checkpoint: Path | None) -> None:
    """Raises CheckpointError if something not made by a run has the name of a later checkpoint than the given one."""
    last = -1 if checkpoint is None else int(checkpoint.name.rpartition("-")[2])
    for entry in folder.iterdir() if folder.is_dir() else ():
        step = regular_step(entry.name)
        if step is not None and step > last and not may_be_checkpoint(entry):
            raise CheckpointError(f"{entry} has the name of a checkpoint, but is not one: move it, or choose another "
                                  "logdir.")


def check_logdir(options: RunOptions, params: Mapping[str, Any]) -> LogDir:
    """Checks that the log directory suits the mode of the run, without writing anything.

    Args:
      options: the run's options. With ``no_dir_check`` or ``benchmark``, an unsuitable directory or a missing
        checkpoint is only a warning, and the run continues without the checkpoint.
      params: the model's parameters, of which ``logdir``, ``load_model`` and ``restore_best_checkpoint`` are used.

    Raises:
      UserError: the directory is missing, or is not empty although a new run is to start.
      CheckpointError: a checkpoint is needed, but there is none; or, even with ``no_dir_check``, a subfolder is a link
        or cannot be written, or something else has the name of a later checkpoint.
    """
    lenient = options.no_dir_check or options.benchmark
    root, folder = _folders(options, params)
    training = options.mode.startswith("train")
    for place in filter(None, (root, folder)):
        refuse_links(place)
        if training:
            _check_folders(place)
    checkpoint = base = None
    try:
        if root is None or folder is None:
            raise UserError("'logdir' is missing: set it to a folder for checkpoints and logs in base_params, "
                            "or give --logdir=folder.")
        of_config = options.config.config_file.checkpoint  # found in this log directory together with the config
        checkpoint = Path(of_config) if of_config is not None else (
            _training_checkpoint(options, root, folder) if training else
            _finished_checkpoint(options, params, root, folder))
    except UserError as error:
        _raise_or_warn(error, lenient)
    if training and folder is not None:
        _refuse_foreign(folder, checkpoint)
    if training and checkpoint is None and params.get("load_model"):
        try:
            base = _base_checkpoint(params)
        except UserError as error:
            _raise_or_warn(error, lenient)
    if training and root is not None and checkpoint is None and options.continue_learning and is_marked(root):
        return LogDir(root, folder, None, base, started_run(root, options), True)
    return LogDir(root, folder, checkpoint, base)


def _folders(options: RunOptions, params: Mapping[str, Any]) -> tuple[Path | None, Path | None]:
    """Returns the log directory and its folder of checkpoints; None without a ``logdir``.

    For a new run, the folder of checkpoints depends only on ``--enable_logs``.
    """
    if not params.get("logdir"):
        return None, None
    root = Path(params["logdir"]).expanduser()
    if options.mode.startswith("train") and not options.continue_learning:
        folder = root / LOGS if options.enable_logs else root
    else:
        folder = checkpoint_folder(root, options.enable_logs)
    return root, folder


def take_over(options: RunOptions, params: Mapping[str, Any]) -> LogDir:
    """Returns the log directory of a run in progress that has lost its rank 0."""
    root, folder = _folders(options, params)
    return LogDir(None) if root is None else LogDir(root, folder, run=started_run(root, options))


def _raise_or_warn(error: UserError, lenient: bool) -> None:
    if not lenient:
        raise error
    deco_print(f"WARNING: {error}")


def _is_empty(folder: Path) -> bool:
    """Returns whether a folder contains nothing that a new run could damage.

    Locks, unfinished files, kept files, overviews, tables of metrics, and the batches on which earlier runs diverged do
    not count.
    """
    try:
        return all(entry.name in _HARMLESS or entry.name.startswith((disk.TEMPORARY, OVERVIEW, METRICS))
                   for entry in folder.iterdir())
    except FileNotFoundError:
        return True
    except OSError as error:
        raise UserError(f"The log directory {folder} cannot be read: {error.strerror}.") from error


def _lacks(root: Path) -> str:
    """Returns why a log directory has no checkpoint, as the predicate of a sentence about the directory."""
    return "is a file" if root.is_file() else "contains no checkpoint" if root.is_dir() else "does not exist"


def _training_checkpoint(options: RunOptions, root: Path, folder: Path) -> Path | None:
    refuse_checkpoint(root)
    checkpoint = next(iter(find_checkpoints(folder)), None)
    if checkpoint is None and options.continue_learning and is_marked(root):
        return None  # only the start of a run, which is begun anew
    if _is_empty(root):
        if options.continue_learning:
            raise UserError(f"--continue_learning was given, but the log directory {root} {_lacks(root)}: leave the "
                            "flag out to start from scratch, or correct logdir.")
        return None
    if not options.continue_learning:
        raise UserError(f"The log directory {root} is not empty: give --continue_learning to resume its training, "
                        "or choose another logdir to start from scratch.")
    if checkpoint is None:  # training never resumes from best_models
        raise CheckpointError(f"--continue_learning was given, but there is no checkpoint in {folder}: "
                              "choose another logdir to start from scratch.")
    return checkpoint


def _finished_checkpoint(options: RunOptions, params: Mapping[str, Any], root: Path, folder: Path) -> Path:
    if not root.is_dir() or _is_empty(root):
        raise UserError(f"The log directory {root} {_lacks(root)}: "
                        f"the mode {options.mode} needs the logdir of a trained model.")
    checkpoint = next(iter(find_checkpoints(folder, bool(params.get("restore_best_checkpoint")))), None)
    if checkpoint is None:
        raise CheckpointError(f"There is no checkpoint in {folder}: "
                              f"the mode {options.mode} needs a trained model.")
    return checkpoint


def _base_checkpoint(params: Mapping[str, Any]) -> Path | OriginalFiles | HuggingFaceFolder:
    root = Path(params["load_model"]).expanduser()
    if not root.is_dir() and (files := OriginalFiles.at(root)):
        return files
    if not root.is_dir() or _is_empty(root):
        raise UserError(f"'load_model' is {root}, which {_lacks(root)}: give the logdir of a trained model, or the "
                        "path of a checkpoint of NVIDIA's OpenSeq2Seq without .index.")
    if of_transformers := HuggingFaceFolder.at(root):
        return of_transformers
    folder = checkpoint_folder(root)
    checkpoints = find_checkpoints(folder)
    if params.get("restore_best_checkpoint"):
        checkpoints = best_models(folder, params) or checkpoints
    base = next(iter(checkpoints), None) or OriginalFiles.newest_in(root)
    if base is None:
        raise CheckpointError(f"There is no checkpoint in {folder}, the folder given in 'load_model': give the logdir "
                              "of a trained model.")
    return base


def refuse_checkpoint(root: Path) -> None:
    """Raises UserError if a log directory is itself a checkpoint, or a file."""
    if root.exists() and not root.is_dir():
        raise UserError(f"The log directory {root} is a file: choose another logdir.")
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
      UserError: on entry, if another process holds the lock, or if the directory is a checkpoint, is a file, or cannot
        be written.
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
                with contextlib.suppress(OSError):  # the run has failed before it wrote anything to the new directory
                    if {*os.listdir(self._root)} <= {*_FIRST_FILES}:
                        disk.remove_folder(self._root, [*_FIRST_FILES])
            self._file.close()  # releases the lock
            self._file = None


def write_mark(root: Path, run: str, options: RunOptions) -> None:
    """Marks a log directory as that of a run that starts.

    Raises:
      UserError: the mark cannot be written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        disk.remove_unfinished(root)
        with disk.writing(root / START_MARK, lambda file: _parsed(file.read(_MOST_BYTES)) is not None) as file:
            file.write(json.dumps({_RUN: run, _CONFIG: config_checksum(options)}).encode())
    except OSError as error:
        raise UserError(f"The log directory {root} cannot be written: {error.strerror} ({error.filename}).") from error


def is_marked(root: Path) -> bool:
    """Returns whether a log directory holds the mark of a run that has not completed a checkpoint."""
    return _read_mark(root) is not None


def started_run(root: Path, options: RunOptions) -> str:
    """Returns the name of the run that has started in a log directory, or a new name if its config was another one."""
    mark = _read_mark(root) or {}
    return mark[_RUN] if mark.get(_CONFIG) == config_checksum(options) else uuid.uuid4().hex


def config_checksum(options: RunOptions) -> str:
    """Returns the SHA-256 of the config of a run, with the values that replace others, as hexadecimal digits."""
    return hashlib.sha256(to_yaml(options.config.as_sections()).encode()).hexdigest()


def _read_mark(root: Path) -> dict[str, str] | None:
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
