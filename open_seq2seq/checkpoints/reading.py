"""Reads checkpoints, verifies their checksums, and assigns their values; nothing in a checkpoint is executed."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from open_seq2seq.checkpoints.folders import step_in_name
from open_seq2seq.checkpoints.state import (
    ASSETS,
    AVERAGE,
    CARRIED,
    CHECKSUMS,
    CONFIG,
    OPTIMIZER,
    WEIGHTS,
    read_state,
    unreadable,
)
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointAccessError, CheckpointError
from open_seq2seq.utils.own_files import open_own, read_own, sha256_of

Found = TypeVar("Found")
_MOST_CONFIG_BYTES = 1 << 22
_FINITE_AT_ONCE = 1 << 20  # values per chunk
# Files that this process has verified: path → (checksum, identity of the file when it was verified). A file is not
# added if it changed less than a second ago: timestamps are coarse, so another change could leave the same ctime.
_SETTLED_NS = 10**9
_VERIFIED: dict[str, tuple[str, tuple[int, ...]]] = {}


@dataclass
class Checkpoint:
    """A checkpoint in memory.

    Attributes:
      path: folder of the checkpoint.
      weights: FP32 weights by name.
      optimizer: slots, counters, loss scale, averages of the weights and carried states, by name.
      state: entries of ``state.json`` such as the step, the seed and metrics.
      config_yaml: the resolved config.
      assets: path of each file in the folder ``assets`` that has a checksum, by file name.
      checksums: SHA-256 checksum of each file, by path in the checkpoint.
    """

    path: Path
    weights: dict[str, np.ndarray]
    optimizer: dict[str, np.ndarray]
    state: dict[str, Any]
    config_yaml: str
    assets: dict[str, Path] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)

    @property
    def averaged_weights(self) -> dict[str, np.ndarray]:
        """The moving average or mean of the trained weights, by name; {} if the run kept neither."""
        return {name.removeprefix(AVERAGE): value for name, value in self.optimizer.items() if name.startswith(AVERAGE)}

    @property
    def carried(self) -> dict[str, np.ndarray]:
        """The states that the model carries from batch to batch ``[slots, rows, …]``, by path."""
        return {name.removeprefix(CARRIED): value for name, value in self.optimizer.items() if name.startswith(CARRIED)}

    def check_finite(self, optimizer: bool = False) -> None:
        """Raises CheckpointError if weights or their averages contain inf or NaN.

        Args:
          optimizer: whether to check the optimizer's other variables, too.
        """
        of_optimizer = {name: value for name, value in self.optimizer.items()
                if name.startswith(AVERAGE) or (optimizer and not name.startswith(CARRIED))}
        for name, value in {**self.weights, **of_optimizer}.items():
            # In chunks, because np.isfinite allocates a Boolean array.
            chunks = np.split(value.reshape(-1), range(_FINITE_AT_ONCE, value.size, _FINITE_AT_ONCE))
            if value.dtype.kind == "f" and not all(np.isfinite(chunk).all() for chunk in chunks):
                raise CheckpointError(f"The checkpoint {self.path} cannot be used: {name} contains inf or NaN. Choose "
                                      "another checkpoint, or remove this folder to use the previous one.")


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Reads and verifies a checkpoint folder.

    Symbolic links in the folder are not followed, and only the files that ``state.json`` lists are read.

    Raises:
      CheckpointError: a file is missing, truncated, altered or a symbolic link, or its header does not fit its content;
        or the folder's name and ``state.json`` give different steps.
    """
    path = Path(path)
    state = read_state(path)
    with _reported(path):
        _verify(path, state)
        return Checkpoint(path, _load_tensors(path, WEIGHTS), _load_tensors(path, OPTIMIZER),
                          {name: value for name, value in state.items() if name != CHECKSUMS},
                          read_own(path, CONFIG, _MOST_CONFIG_BYTES).decode("utf-8"), _assets(path, state),
                          state[CHECKSUMS])


def verified_assets(path: str | Path) -> dict[str, Path]:
    """Returns the paths of a checkpoint's assets by name, after verifying all of its files.

    Raises:
      CheckpointError: see ``load_checkpoint``.
    """
    path = Path(path)
    state = read_state(path)
    with _reported(path):
        _verify(path, state)
        read_own(path, CONFIG, _MOST_CONFIG_BYTES)
    return _assets(path, state)


def _assets(path: Path, state: dict[str, Any]) -> dict[str, Path]:
    folder = f"{ASSETS}/"
    return {name.removeprefix(folder): path / name for name in state[CHECKSUMS]
            if name.startswith(folder) and name.count("/") == 1}


def _verify(path: Path, state: dict[str, Any]) -> None:
    for name, checksum in state[CHECKSUMS].items():
        with open_own(path, name) as file:
            status = os.fstat(file.fileno())
            seen = checksum, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if _VERIFIED.get(str(path / name)) == seen:
                continue
            found = sha256_of(file)
        if found != checksum:
            raise CheckpointError(f"The checkpoint {path} is damaged: {name} is truncated or altered.")
        if time.time_ns() - status.st_ctime_ns > _SETTLED_NS:
            _VERIFIED[str(path / name)] = seen
    named = step_in_name(path.name)
    if named is not None and named != state.get("step", named):
        raise CheckpointError(f"The name of the checkpoint {path} gives step {named}, but its state.json gives step "
                              f"{state['step']}: rename the folder to match state.json.")


def _load_tensors(path: Path, name: str) -> dict[str, np.ndarray]:
    """Returns the arrays of a safetensors file by name. The library refuses headers that do not fit the file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path / name)
    # ValueError, TypeError and AttributeError: a shape or type that NumPy does not have
    except (SafetensorError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"The checkpoint {path} is damaged: {name} is not a valid file of tensors "
                              f"({str(error)[:200]!r}).") from error


@contextlib.contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Context manager that converts errors to CheckpointError, so that the caller can try an older checkpoint."""
    try:
        yield
    except CheckpointError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:
        raise CheckpointError(f"The checkpoint {path} is damaged: {error}.") from error


def first_whole(paths: Iterable[Path], read: Callable[[Path], Found]) -> Found:
    """Returns the result of ``read`` for the first intact checkpoint, and reports each damaged one before it.

    Args:
      paths: checkpoint folders, the preferred one first.
      read: function of a folder, such as ``load_checkpoint``, that raises CheckpointError if the checkpoint is damaged.

    Raises:
      CheckpointError: no checkpoint is intact, or access to one is denied.
    """
    last: CheckpointError | None = None
    for path in paths:
        try:
            return read(path)
        except CheckpointAccessError:  # the checkpoint is not damaged, so an older one must not be used instead
            raise
        except CheckpointError as error:
            deco_print(f"WARNING: {error} Trying the previous checkpoint.")
            last = error
    if last is None:
        raise CheckpointError("There is no checkpoint to read.")
    raise CheckpointError(f"No intact checkpoint is left. {last}") from last


@dataclass
class MatchReport:
    """Result of matching variables with a checkpoint's values.

    Attributes:
      assigned: names of the variables that matched.
      missing: names of variables that are not in the checkpoint.
      unused: names that are only in the checkpoint.
      shapes: (shape of the variable, shape in the checkpoint) by name, where they differ.
    """

    assigned: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Returns one line for each name that did not match."""
        return [*(f"Not restoring {name}: not in the checkpoint" for name in self.missing),
                *(f"Not restoring {name}: its shape is {here} in the model but {there} in the checkpoint"
                  for name, (here, there) in self.shapes.items()),
                *(f"Not used from the checkpoint: {name}" for name in self.unused)]


def match(variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]) -> MatchReport:
    """Reports which names and shapes match, without assigning anything."""
    report = MatchReport(unused=[name for name in values if name not in variables])
    for name, variable in variables.items():
        value = values.get(name)
        if value is None:
            report.missing.append(name)
        elif tuple(variable.shape) != value.shape:
            report.shapes[name] = (tuple(variable.shape), value.shape)
        else:
            report.assigned.append(name)
    return report


def assign_matching(variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]) -> MatchReport:
    """Assigns each value whose name and shape match, cast to the dtype of the variable; reports the others, too."""
    report = match(variables, values)
    for name in report.assigned:
        variables[name].assign(tf.cast(values[name], variables[name].dtype))
    return report


def assign_strictly(variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray], path: Path) -> None:
    """Assigns all values; variables and values must have the same names and shapes.

    Raises:
      CheckpointError: names or shapes differ; in this case, no variable is changed.
    """
    report = match(variables, values)
    lines = report.lines()
    if not lines:
        assign_matching(variables, values)
        return
    more = f"; and {len(lines) - 3} more" if len(lines) > 3 else ""
    rows = [(here[0], there[0]) for name, (here, there) in report.shapes.items()
            if "embedding" in name and len(here) == len(there) == 2 and here[0] != there[0]]
    hint = f" The embedding table has {rows[0][0]} rows in the model but {rows[0][1]} in the checkpoint: the " \
           "vocabularies differ." if rows else ""
    raise CheckpointError(f"The checkpoint {path} does not fit this config: {'; '.join(lines[:3])}{more}.{hint} Use "
                          f"the config that it was trained with, which is {path / 'config.yaml'}.")
