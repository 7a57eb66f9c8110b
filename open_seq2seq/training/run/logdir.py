"""The log directory: what must be there before a run starts, and the lock that keeps others out."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, BinaryIO

from open_seq2seq.config.options import RunOptions
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, UserError

BEST_MODELS = "best_models"
AVERAGED = "averaged_models"
LOGS = "logs"
LANGUAGE_MODELS = "language_models"
SAMPLES = "samples"
LOCK = ".lock"
STATE = "state.json"
DIVERGENCE = "divergence"

# Not so events and samples: a new run's would be mixed with those of another one.
_HARMLESS = (LOCK, DIVERGENCE, LANGUAGE_MODELS)
_FOLDERS = (BEST_MODELS, AVERAGED, LOGS, LANGUAGE_MODELS, DIVERGENCE, SAMPLES)
# A folder with one of these is a checkpoint, though perhaps a damaged one.
_CHECKPOINT_FILES = (STATE, "weights.safetensors", "optimizer.safetensors", "config.yaml")
_CHECKPOINT = re.compile(r"model\.ckpt-(\d+)$")
_BEST = re.compile(r".+=(?:[-+]?[\d.]+(?:e[-+]?\d+)?|nan|inf|-inf)-step-(\d+)$")


_LOCKED = re.compile(rb"process \d+ on host \S*")
_LONGEST_LOCK = 400


@dataclass(frozen=True)
class LogDir:
    """Where a run reads and writes.

    Attributes:
      root: the ``logdir`` of the config; None when the run keeps nothing (a benchmark).
      checkpoint_dir: ``root``, or ``root/logs`` with ``--enable_logs``: checkpoints and events.
      best_dir: ``checkpoint_dir/best_models``.
      checkpoint: checkpoint folder to resume from, or to evaluate; None to start from scratch.
      base_checkpoint: checkpoint folder of ``load_model`` that gives the initial weights; None without one.
      run: names the run in its checkpoints, by which it knows them from those of others.
    """

    root: Path | None
    checkpoint_dir: Path | None = None
    best_dir: Path | None = None
    checkpoint: Path | None = None
    base_checkpoint: Path | None = None
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    def of_run(self, state: Mapping[str, Any] | None) -> LogDir:
        """Returns it for the run that a checkpoint's ``state.json`` is of; of None, it stays that of a new run."""
        # Older versions gave runs no name: such a run goes on without one.
        return self if state is None else replace(self, run=str(state.get("run", "")))


def list_checkpoints(folder: str | os.PathLike[str], best: bool = False) -> list[Path]:
    """Returns the checkpoints in a folder, that of the highest step first, as their names say.

    They are finished; one whose files were damaged or removed since is among them: its reader says what is wrong.

    Args:
      folder: holds ``model.ckpt-<step>`` folders, or with ``best`` those named
        ``<metric>=<value>-step-<step>``.
      best: which of the two names to look for.
    """
    pattern = _BEST if best else _CHECKPOINT
    found = []
    with contextlib.suppress(OSError):
        for entry in Path(folder).iterdir():
            match = pattern.match(entry.name)
            if match and any((entry / name).is_file() for name in _CHECKPOINT_FILES):
                found.append((int(match[1]), entry.name, entry))
    return [entry for _, _, entry in sorted(found, reverse=True)]


def step_in_name(name: str) -> int | None:
    """Returns the step in a checkpoint folder's name; None where the folder has another name."""
    match = _CHECKPOINT.match(name) or _BEST.match(name)
    return int(match[1]) if match else None


def find_checkpoint(folder: str | os.PathLike[str], restore_best: bool = False) -> Path | None:
    """Returns the checkpoint that a folder offers: the best, the newest, or the folder itself; None without one.

    Raises:
      CheckpointError: a folder in it is a link, which could lead anywhere.
    """
    found = find_checkpoints(folder, restore_best)
    return found[0] if found else None


def find_checkpoints(folder: str | os.PathLike[str], restore_best: bool = False) -> list[Path]:
    """Returns the checkpoint of ``find_checkpoint``, and those that could replace it, the preferred one first."""
    folder = Path(folder)
    refuse_links(folder)
    best = list_checkpoints(folder / BEST_MODELS, best=True) if restore_best else []
    if best:
        return best
    if (folder / STATE).is_file():
        return [folder.resolve() if folder.is_symlink() else folder]  # the user's own link
    return list_checkpoints(folder)


def refuse_links(folder: Path) -> None:
    """Raises CheckpointError when a folder that a run reads or writes below another one is a link out of it."""
    for name in _FOLDERS:
        if (folder / name).is_symlink():
            raise CheckpointError(f"{folder / name} is a link, but a logdir holds its folders itself: put the folder "
                                  "in its place.")


def _refuse_files(folder: Path) -> None:
    """Raises CheckpointError when a file has the name of a folder that a run writes to."""
    for name in _FOLDERS:
        if os.path.lexists(folder / name) and not (folder / name).is_dir():
            raise CheckpointError(f"{folder / name} is no folder, but a run puts its files in one of that name: move "
                                  "it, or choose another logdir.")


def _refuse_foreign(folder: Path, checkpoint: Path | None) -> None:
    """Raises CheckpointError when what no run has made has the name of a checkpoint after the given one."""
    step = -1 if checkpoint is None else int(checkpoint.name.rpartition("-")[2])
    for entry in folder.iterdir() if folder.is_dir() else ():
        match = _CHECKPOINT.match(entry.name)
        if match and int(match[1]) > step and not _may_be_checkpoint(entry):
            raise CheckpointError(f"{entry} has the name of a checkpoint, but no run has made it: move it, or choose "
                                  "another logdir.")


def _may_be_checkpoint(entry: Path) -> bool:
    if entry.is_symlink() or not entry.is_dir():
        return False
    names = os.listdir(entry)
    return not names or any(name in names for name in _CHECKPOINT_FILES)


def check_logdir(options: RunOptions, params: Mapping[str, Any]) -> LogDir:
    """Checks that the log directory fits what the run is to do. Writes nothing.

    Args:
      options: the run's options; with ``no_dir_check`` (or ``benchmark``) problems are
        printed as warnings, and the run goes on without the checkpoint in question.
      params: model-level parameters: ``logdir``, ``load_model``, ``restore_best_checkpoint``.

    Raises:
      UserError: the directory is missing, or is not empty where a new run would start.
      CheckpointError: there is no checkpoint where one is needed.
    """
    lenient = options.no_dir_check or options.benchmark
    given = params.get("logdir")
    root = Path(given).expanduser() if given else None
    folder = root / LOGS if root and options.enable_logs else root
    if root is not None and folder is not None:
        refuse_links(root)
        refuse_links(folder)
    training = options.mode.startswith("train")
    for place in (root, folder) if training else ():
        if place is not None:
            _refuse_files(place)
    checkpoint = base = None
    try:
        if root is None or folder is None:
            raise UserError("'logdir' is missing: name a folder for checkpoints and logs in base_params, "
                            "or give --logdir=folder.")
        check = _training_checkpoint if training else _finished_checkpoint
        checkpoint = check(options, params, root, folder)
    except UserError as error:
        _raise_or_warn(error, lenient)
    if training and folder is not None:
        _refuse_foreign(folder, checkpoint)
    if training and checkpoint is None and params.get("load_model"):
        try:
            base = _base_checkpoint(options, params)
        except UserError as error:
            _raise_or_warn(error, lenient)
    return LogDir(root, folder, folder / BEST_MODELS if folder else None, checkpoint, base)


def take_over(options: RunOptions, params: Mapping[str, Any]) -> LogDir:
    """Returns the log directory of a run that is under way, and whose first process has been lost."""
    given = params.get("logdir")
    root = Path(given).expanduser() if given else None
    folder = root / LOGS if root and options.enable_logs else root
    return LogDir(root, folder, folder / BEST_MODELS if folder else None)


def _raise_or_warn(error: UserError, lenient: bool) -> None:
    if not lenient:
        raise error
    deco_print(f"WARNING: {error}")


def _is_empty(folder: Path) -> bool:
    """Whether nothing is there that a new run could damage.

    A lock, unfinished writes, copies and the batches on which earlier runs diverged do not count.
    """
    try:
        return all(entry.name in _HARMLESS or entry.name.startswith(disk.TEMPORARY) for entry in folder.iterdir())
    except FileNotFoundError:
        return True
    except OSError as error:
        raise UserError(f"The log directory {folder} cannot be read: {error.strerror}.") from error


def _training_checkpoint(options: RunOptions, params: Mapping[str, Any], root: Path, folder: Path) -> Path | None:
    if root.exists() and not root.is_dir():
        raise UserError(f"The log directory {root} is a file: choose another logdir.")
    _refuse_checkpoint(root)
    if _is_empty(root):
        if options.continue_learning:
            raise UserError(f"--continue_learning was given, but the log directory {root} is empty or missing: "
                            "leave the flag out to start from scratch, or correct logdir.")
        return None
    if not options.continue_learning:
        raise UserError(f"The log directory {root} is not empty: give --continue_learning to resume the training "
                        "there, or choose another logdir to start from scratch.")
    # Resuming is never from best_models: the newest checkpoint is where the training stood.
    checkpoint = find_checkpoint(folder)
    if checkpoint is None:
        raise CheckpointError(f"--continue_learning was given, but there is no checkpoint in {folder}"
                              f"{_elsewhere(root, options)}: choose another logdir to start from scratch.")
    return checkpoint


def _refuse_checkpoint(root: Path) -> None:
    if (root / STATE).is_file():
        raise UserError(f"The log directory {root} is a checkpoint: give the folder that holds it, "
                        f"{root.absolute().parent}, to go on from there, or choose another logdir.")


def _finished_checkpoint(options: RunOptions, params: Mapping[str, Any], root: Path, folder: Path) -> Path:
    if not root.is_dir() or _is_empty(root):
        what = "is a file" if root.is_file() else "is empty" if root.is_dir() else "does not exist"
        raise UserError(f"The log directory {root} {what}: "
                        f"the mode {options.mode} needs the logdir of a trained model.")
    restore_best = bool(params.get("restore_best_checkpoint"))
    checkpoint = find_checkpoint(folder, restore_best)
    if checkpoint is None:
        raise CheckpointError(f"There is no checkpoint in {folder}{_elsewhere(root, options)}: "
                              f"the mode {options.mode} needs a trained model.")
    return checkpoint


def _elsewhere(root: Path, options: RunOptions) -> str:
    """A hint when the checkpoints lie where the other setting of ``--enable_logs`` puts them."""
    if options.enable_logs and find_checkpoint(root):
        return f" (there are some in {root}: leave out --enable_logs)"
    if not options.enable_logs and find_checkpoint(root / LOGS):
        return f" (there are some in {root / LOGS}: give --enable_logs, as in the run that wrote them)"
    return ""


def _base_checkpoint(options: RunOptions, params: Mapping[str, Any]) -> Path:
    root = Path(params["load_model"]).expanduser()
    if not root.is_dir() or _is_empty(root):
        what = "is a file" if root.is_file() else "is empty" if root.is_dir() else "does not exist"
        raise UserError(f"The folder {root} that 'load_model' names {what}: give the logdir of a trained model.")
    is_checkpoint = (root / STATE).is_file()
    if options.enable_logs and not is_checkpoint and not (root / LOGS).is_dir():
        raise UserError(f"The folder {root} that 'load_model' names has no folder '{LOGS}', where --enable_logs looks: "
                        f"leave out --enable_logs, or name a checkpoint folder.")
    folder = root / LOGS if options.enable_logs and not is_checkpoint else root
    checkpoint = find_checkpoint(folder, bool(params.get("restore_best_checkpoint")))
    if checkpoint is None:
        raise CheckpointError(f"There is no checkpoint in {folder}, which 'load_model' names"
                              f"{_elsewhere(root, options)}.")
    return checkpoint


def _is_lock(file: BinaryIO) -> bool:
    content = file.read(_LONGEST_LOCK + 1)
    return not content or _LOCKED.fullmatch(content) is not None


class LogDirLock:
    """Holds a log directory for this process while a run writes there: a context manager.

    The kernel drops the lock when the process ends, however it ends, so a killed run
    leaves nothing to clean up; the file that stays behind says only who came last.

    Args:
      root: the log directory, made if missing; None locks nothing.

    Raises:
      UserError: on entering, when another process holds the directory, or it cannot be written.
    """

    def __init__(self, root: str | os.PathLike[str] | None) -> None:
        self._path = None if root is None else Path(root).expanduser() / LOCK
        self._file: IO[bytes] | None = None

    def __enter__(self) -> LogDirLock:
        if self._path is None:
            return self
        _refuse_checkpoint(self._path.parent)  # a file in it would outlive it
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = disk.open_lock(self._path, _is_lock)  # held until __exit__
        except disk.ForeignError as error:
            what = ("holds something else than the lock of a run" if error.strerror == disk.FOREIGN
                    else "is a link, or no file")
            raise UserError(f"{self._path} {what}: move it, or choose another logdir.") from error
        except OSError as error:
            raise UserError(f"The log directory {self._path.parent} cannot be written: {error.strerror}.") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._refused(error)
        else:
            disk.rewrite_lock(self._file, f"process {os.getpid()} on host {socket.gethostname()}".encode())
        return self

    def _refused(self, error: OSError) -> None:
        assert self._file is not None and self._path is not None
        self._file.seek(0)
        holder = self._file.read(_LONGEST_LOCK).decode(errors="replace").strip() or "another process"
        self._file.close()
        self._file = None
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise UserError(f"The log directory {self._path.parent} is in use by {holder}: "
                            "wait for that run to end, or choose another logdir.") from None
        deco_print(f"WARNING: {self._path.parent} is on a file system without locks ({error.strerror}): "
                   "nothing keeps a second run out of it.")

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()  # gives the lock back
            self._file = None
