"""Writes checkpoints such that a crash at any moment leaves the earlier ones intact, and averages them.

For the average of the weights of several checkpoints from the end of a run, see Polyak and Juditsky 1992,
https://doi.org/10.1137/0330046.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.checkpoints.folders import ALL_FOLDERS, list_checkpoints
from open_seq2seq.checkpoints.reading import Checkpoint, load_checkpoint
from open_seq2seq.checkpoints.state import (
    ASSETS,
    AVERAGE,
    CONFIG,
    FORMAT_VERSION,
    METRICS,
    OPTIMIZER,
    RATES,
    RUN,
    STATE,
    STATE_CHECKSUM,
    UPDATES,
    WEIGHTS,
    files_of,
    read_state,
    sha256,
    state_checksum,
    state_if_intact,
)
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError

RESUME_ADVICE = (" Fix this problem, for instance by freeing space, and give --continue_learning: the run continues "
                 "from its last complete checkpoint, or begins anew if it has none.")
"""Advice of a training run whose checkpoint cannot be written."""

Arrays = Mapping[str, "tf.Variable | np.ndarray"]


@dataclass
class Snapshot:
    """The contents of a checkpoint, copied to host memory.

    Attributes:
      weights: FP32 weights by name.
      optimizer: slots, counters, loss scale, averages of the weights and carried states, by name.
      state: JSON-serialisable entries such as the step, the seed and metrics.
      config_yaml: the resolved config.
      assets: the content of each asset, or the path of a file to copy, by file name in the checkpoint.
    """

    weights: dict[str, np.ndarray]
    optimizer: dict[str, np.ndarray]
    state: dict[str, Any]
    config_yaml: str
    assets: dict[str, bytes | str] = field(default_factory=dict)

    @classmethod
    def take(cls, weights: Arrays, optimizer: Arrays, state: Mapping[str, Any], config_yaml: str,
             assets: Mapping[str, bytes | str]) -> Snapshot:
        """Copies the current values of the variables."""
        return cls(copies(weights), copies(optimizer), dict(state), config_yaml, dict(assets))


def copies(arrays: Arrays) -> dict[str, np.ndarray]:
    """Returns the current values of variables or arrays in memory of their own."""
    # On a CPU, numpy() may return a view of the variable's memory, which the next step overwrites.
    return {name: np.array(v.numpy() if isinstance(v, tf.Variable) else v, order="C") for name, v in arrays.items()}


def write_snapshot(snapshot: Snapshot, folder: Path, advice: str = "") -> None:
    """Writes a checkpoint under a temporary name, syncs it to disk, and renames it.

    An existing ``folder`` is replaced if it is a checkpoint of the same run with an intact ``state.json``; any other
    file or folder of that name is renamed with a warning.

    Args:
      snapshot: contents of the checkpoint.
      folder: final path of the checkpoint.
      advice: sentence for the error message.

    Raises:
      CheckpointError: the disk is full, or the folder cannot be written; no partial checkpoint is left behind.
    """
    run = str(snapshot.state.get(RUN, ""))
    try:
        with disk.new_folder(folder, lambda old: files_of(old, run)) as aside:
            _write_files(snapshot, aside)
    except Exception as error:  # safetensors raises its own error type when the disk is full
        reason = str(error)
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror + (f": {error.filename}" if error.filename else "")
        raise CheckpointError(f"The checkpoint {folder} could not be written: {reason}.{advice}") from error


def _write_files(snapshot: Snapshot, folder: Path) -> None:
    from safetensors.numpy import save_file

    (folder / ASSETS).mkdir()
    disk.write_new(folder / CONFIG, snapshot.config_yaml)
    for name, arrays in ((WEIGHTS, snapshot.weights), (OPTIMIZER, snapshot.optimizer)):
        save_file(arrays, folder / name)
        # safetensors creates files with mode 0600; the config has the mode that the umask gives new files.
        with contextlib.suppress(PermissionError):  # the file system has no access rights
            os.chmod(folder / name, stat.S_IMODE(os.stat(folder / CONFIG).st_mode))
    for name, content in snapshot.assets.items():
        if isinstance(content, bytes):
            disk.write_new(folder / ASSETS / name, content)
        else:
            disk.copy_new(content, folder / ASSETS / name)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    state = {"format": FORMAT_VERSION, "tensorflow": tf.__version__, **snapshot.state,
             "sha256": {str(path.relative_to(folder)): sha256(path) for path in files}}
    state[STATE_CHECKSUM] = state_checksum(state)
    disk.write_new(folder / STATE, json.dumps(state, indent=1))


def note_metrics(folder: Path, metrics: Mapping[str, float]) -> None:
    """Adds the metrics of an evaluation to a checkpoint's state, which is replaced atomically.

    Raises:
      CheckpointError: the checkpoint is damaged, or the state cannot be written.
    """
    state = {"format": FORMAT_VERSION, **read_state(folder), METRICS: dict(metrics)}
    state[STATE_CHECKSUM] = state_checksum(state)
    run = str(state.get(RUN, ""))
    try:
        with disk.writing(folder / STATE, lambda _: files_of(folder, run) is not None, durable=True) as file:
            file.write(json.dumps(state, indent=1).encode())
    except OSError as error:
        raise CheckpointError(f"The metrics of {folder} cannot be written: {error.strerror}.") from error


class Checkpointer:
    """Writes checkpoints in the background, one at a time, and keeps those with the highest sort keys.

    Creating this object also removes what a killed run has left incomplete in the directory, and in the folders there.

    Args:
      directory: folder in which checkpoint folders are written.
      keep: number of checkpoints to keep, including the latest; 0 keeps all.
      order: function that returns the sort key of a checkpoint's folder name, and None for all other names. Checkpoints
        with the lowest keys are removed first.
      run: name of the run in ``state.json``; checkpoints of other runs are not removed.
    """

    def __init__(self, directory: Path, keep: int, order: Callable[[str], Any | None], run: str = "") -> None:
        self._directory = directory
        self._keep = keep
        self._order = order
        self._run = run
        self._thread: threading.Thread | None = None
        self._error: CheckpointError | None = None
        if not directory.is_symlink():
            folders = [directory / name for name in ALL_FOLDERS]
            inner = [path for folder in folders if folder.is_dir() and not folder.is_symlink()
                     for path in folder.iterdir()]
            for place in (directory, *folders, *inner, *list_checkpoints(directory)):
                disk.remove_unfinished(place)

    def save(self, name: str, snapshot: Snapshot, then: Callable[[], None] = lambda: None) -> None:
        """Starts writing ``directory/name`` once the previous write has finished.

        Args:
          name: name of the checkpoint's folder.
          snapshot: contents of the checkpoint.
          then: called in the background once the checkpoint is complete.

        Raises:
          CheckpointError: the previous write failed.
        """
        self.wait()
        self._thread = threading.Thread(target=self._write, args=(name, snapshot, then), name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Waits until the last checkpoint is on disk.

        Raises:
          CheckpointError: the last write failed.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _write(self, name: str, snapshot: Snapshot, then: Callable[[], None]) -> None:
        try:
            write_snapshot(snapshot, self._directory / name, RESUME_ADVICE)
            then()
            self.remove_old(name)
        except CheckpointError as error:
            self._error = error

    def remove_old(self, written: str) -> None:
        """Removes those checkpoints of the run that are no longer to be kept, beside one that is complete."""
        newest = self._order(written)
        if newest is None or self._keep < 1:
            return
        # Regular checkpoints of later steps than the one just written are damaged, which is why the run has gone back
        # to an earlier step. They are not counted, so that they do not displace new checkpoints. They are not removed
        # either, because they may have the only copy of later weights.
        others = sorted((key, path) for path in self._directory.iterdir()
                        if path.name != written and (key := self._order(path.name)) is not None and key <= newest)
        of_run = [(path, files) for _, path in others if (files := files_of(path, self._run)) is not None]
        for path, files in of_run[:max(0, len(of_run) + 1 - self._keep)]:
            try:
                disk.remove_folder(path, files)
            except OSError as error:
                deco_print(f"WARNING: the old checkpoint {path} could not be removed: {error.strerror}.")


def of_one_stretch(paths: Sequence[Path], has_jump: Callable[[int, int], bool] = lambda first, last: False) -> int:
    """Returns how many of the newest checkpoints share a learning-rate schedule that has no jump between them.

    The average of weights from before and after a jump, or under different schedules, is often worse than the newest
    weights.

    Args:
      paths: folders of regular checkpoints, the newest first.
      has_jump: returns whether the learning-rate schedule has a jump between two numbers of updates.
    """
    for count, (newer, older) in enumerate(itertools.pairwise(map(state_if_intact, paths)), 1):
        if newer is None or older is None:  # damaged, which ``average_checkpoints`` reports
            continue
        first, last = (state.get(UPDATES, state["step"]) for state in (older, newer))
        if newer.get(RATES) != older.get(RATES) or has_jump(first, last):
            return count
    return len(paths)


def average_checkpoints(paths: Sequence[str | Path]) -> Snapshot:
    """Returns a snapshot with the means of the weights and of their moving averages, if any.

    Everything else comes from the last usable checkpoint, except that the state has no metrics, and an additional list
    ``averaged`` with the names of the checkpoints used. Checkpoints that are damaged or have non-finite weights are
    reported and left out.

    Args:
      paths: checkpoint folders, oldest first, which contribute equally.

    Raises:
      CheckpointError: there are no checkpoints, none is intact, or their variables differ.
    """
    if not paths:
        raise CheckpointError("There are no checkpoints to average.")
    sums: dict[str, np.ndarray] = {}
    used: list[Path] = []
    for path in map(Path, paths):
        try:
            checkpoint = load_checkpoint(path)
            checkpoint.check_finite()
        except CheckpointError as error:
            deco_print(f"WARNING: {error} It is left out of the average.")
            continue
        last: Checkpoint = checkpoint
        values = {**last.weights,
                  **{name: value for name, value in last.optimizer.items() if name.startswith(AVERAGE)}}
        shapes = {name: value.shape for name, value in values.items()}
        if sums and shapes != {name: value.shape for name, value in sums.items()}:
            raise CheckpointError(f"The checkpoints {used[0]} and {path} have different variables: average only "
                                  "checkpoints of the same run.")
        for name, value in values.items():
            sums[name] = sums.get(name, 0.0) + value.astype(np.float64)
        used.append(path)
    if not used:
        raise CheckpointError("Nothing can be averaged, because none of the checkpoints can be used; see above.")
    # The sums are in FP64, so that the mean of equal weights is exact. Integers, such as counters, are not averaged.
    means = {name: np.asarray(sums[name] / len(used), value.dtype) if value.dtype.kind == "f" else value
             for name, value in values.items()}
    weights = {name: means[name] for name in last.weights}
    optimizer = {name: means.get(name, value) if name.startswith(AVERAGE) else value
                 for name, value in last.optimizer.items()}
    state = {**{name: value for name, value in last.state.items() if name != METRICS},
             "averaged": [path.name for path in used]}
    assets: dict[str, bytes | str] = {name: str(path) for name, path in sorted(last.assets.items())}
    return Snapshot(weights, optimizer, state, last.config_yaml, assets)
