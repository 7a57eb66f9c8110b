"""Writing checkpoints so that a crash at any moment leaves the earlier ones whole."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.training.checkpoints.files import (
    ASSETS,
    CONFIG,
    FORMAT_VERSION,
    OPTIMIZER,
    REPLACED,
    STATE,
    STATE_CHECKSUM,
    TEMPORARY,
    WEIGHTS,
    sha256,
    state_checksum,
)
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError
from open_seq2seq.utils.output_file import sync

Arrays = Mapping[str, "tf.Variable | np.ndarray"]


@dataclass
class Snapshot:
    """Everything a checkpoint holds, as copies in host memory.

    Attributes:
      weights: FP32 weights by name.
      optimizer: slots, counters and loss scale by name.
      state: what JSON can hold: step, seed, metrics.
      config_yaml: the resolved config.
      assets: file name in the checkpoint → its content, or the path of a file to copy.
    """

    weights: dict[str, np.ndarray]
    optimizer: dict[str, np.ndarray]
    state: dict[str, Any]
    config_yaml: str
    assets: dict[str, bytes | str] = field(default_factory=dict)

    @classmethod
    def take(cls, weights: Arrays, optimizer: Arrays, state: Mapping[str, Any], config_yaml: str,
             assets: Mapping[str, bytes | str]) -> Snapshot:
        """Copies the variables' values as they are now."""
        return cls(_copies(weights), _copies(optimizer), dict(state), config_yaml, dict(assets))


def _copies(arrays: Arrays) -> dict[str, np.ndarray]:
    # On a CPU numpy() may share the variable's memory, which the next step changes.
    return {name: np.array(v.numpy() if isinstance(v, tf.Variable) else v, order="C") for name, v in arrays.items()}


def write_snapshot(snapshot: Snapshot, folder: Path) -> None:
    """Writes a checkpoint folder: aside first, then synced, then renamed. An older one of that name is replaced.

    Raises:
      CheckpointError: the disk is full, or the folder cannot be written; nothing is left behind.
    """
    aside = folder.parent / f"{TEMPORARY}{folder.name}-{os.getpid()}-{threading.get_ident()}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
        _write_files(snapshot, aside)
        _put_in_place(aside, folder)
    except Exception as error:  # safetensors reports a full disk as an error type of its own
        shutil.rmtree(aside, ignore_errors=True)
        reason = str(error)
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror + (f": {error.filename}" if error.filename else "")
        raise CheckpointError(f"The checkpoint {folder} could not be written: {reason}. Earlier checkpoints are "
                              "untouched; mend that and go on with --continue_learning.") from error


def _put_in_place(aside: Path, folder: Path) -> None:
    """Renames the finished folder; one that has that name already is there until the new one is."""
    replaced = folder.parent / f"{REPLACED}{folder.name}"
    if folder.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        os.rename(folder, replaced)
    try:
        os.rename(aside, folder)
    except OSError:
        if replaced.exists():
            os.rename(replaced, folder)
        raise
    sync(folder.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _write_files(snapshot: Snapshot, folder: Path) -> None:
    from safetensors.numpy import save_file

    (folder / ASSETS).mkdir(parents=True)
    save_file(snapshot.weights, folder / WEIGHTS)
    save_file(snapshot.optimizer, folder / OPTIMIZER)
    (folder / CONFIG).write_text(snapshot.config_yaml, encoding="utf-8")
    for name, content in snapshot.assets.items():
        (folder / ASSETS / name).write_bytes(content if isinstance(content, bytes) else Path(content).read_bytes())
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    state = {"format": FORMAT_VERSION, "tensorflow": tf.__version__, **snapshot.state,
             "sha256": {str(path.relative_to(folder)): sha256(path) for path in files}}
    state[STATE_CHECKSUM] = state_checksum(state)
    (folder / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
    for path in [*files, folder / STATE, folder / ASSETS, folder]:
        sync(path)


def remove_unfinished(directory: Path) -> None:
    """Removes what a killed run left half written, and puts back what it was about to replace."""
    for path in directory.glob(f"{TEMPORARY}*"):
        original = directory / path.name.removeprefix(REPLACED)
        if path.name.startswith(REPLACED) and not original.exists():
            os.rename(path, original)
        else:
            shutil.rmtree(path, ignore_errors=True)


class Checkpointer:
    """Writes checkpoints in the background, one at a time, and keeps the last few.

    Args:
      directory: where the folders go.
      keep: how many are kept, the one just written among them; 0 keeps all.
      order: folder name → sort key, None for folders that are not this keeper's; the lowest
        go first when there are too many.
    """

    def __init__(self, directory: Path, keep: int, order: Callable[[str], float | None]) -> None:
        self._directory = directory
        self._keep = keep
        self._order = order
        self._thread: threading.Thread | None = None
        self._error: CheckpointError | None = None
        remove_unfinished(directory)

    def save(self, name: str, snapshot: Snapshot) -> None:
        """Starts writing ``directory/name``, after waiting for the write before.

        Raises:
          CheckpointError: the write before failed.
        """
        self.wait()
        self._thread = threading.Thread(target=self._write, args=(name, snapshot), name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Waits until everything is on disk.

        Raises:
          CheckpointError: the last write failed.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _write(self, name: str, snapshot: Snapshot) -> None:
        try:
            write_snapshot(snapshot, self._directory / name)
            self._rotate(name)
        except CheckpointError as error:
            self._error = error

    def _rotate(self, written: str) -> None:
        newest = self._order(written)
        if newest is None or self._keep < 1:
            return
        # Those ranked above the one just written come from a time that the run has gone back
        # from, because they were damaged: they go first.
        others = sorted((key <= newest, key, path) for path in self._directory.iterdir()
                        if path.name != written and (key := self._order(path.name)) is not None)
        for _, _, path in others[:max(0, len(others) + 1 - self._keep)]:
            # Renamed first: a crash while deleting must not leave a folder that looks like a checkpoint.
            doomed = path.parent / f"{TEMPORARY}old-{path.name}"
            try:
                os.rename(path, doomed)
                shutil.rmtree(doomed)
            except OSError as error:
                deco_print(f"WARNING: the old checkpoint {path} could not be removed: {error.strerror}.")
