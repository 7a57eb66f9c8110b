"""Reading checkpoints: verified by checksum, never executing anything."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from open_seq2seq.training.checkpoints.files import (
    ASSETS,
    AVERAGE,
    CARRIED,
    CONFIG,
    OPTIMIZER,
    WEIGHTS,
    sha256_of,
)
from open_seq2seq.training.checkpoints.folders import step_in_name
from open_seq2seq.training.checkpoints.state import CHECKSUMS, read_state, unreadable
from open_seq2seq.training.checkpoints.tensors import load_tensors
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointAccessError, CheckpointError
from open_seq2seq.utils.own_files import open_own, read_own

Found = TypeVar("Found")
_MOST_CONFIG_BYTES = 1 << 22
_FINITE_AT_ONCE = 1 << 20  # numbers
# Files that this process has verified, with their identity then. A file changed less than a second ago is not among
# them: times are coarse, and it could be changed again within the same tick.
_SETTLED_NS = 10**9
_VERIFIED: dict[str, tuple[str, tuple[int, ...]]] = {}


@dataclass
class Checkpoint:
    """A checkpoint in memory.

    Attributes:
      path: its folder.
      weights: FP32 weights by name.
      optimizer: slots, counters, loss scale and carried states, by name.
      state: step, seed, metrics.
      config_yaml: the resolved config.
      assets: file name in the folder ``assets`` → path, of those with a checksum.
      checksums: name → checksum of each of its files.
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
        """The moving average of the trained weights by name; {} where the run kept none."""
        return {name.removeprefix(AVERAGE): value for name, value in self.optimizer.items() if name.startswith(AVERAGE)}

    @property
    def carried(self) -> dict[str, np.ndarray]:
        """The states that the model carries from batch to batch ``[slots, rows, …]``, by path."""
        return {name.removeprefix(CARRIED): value for name, value in self.optimizer.items() if name.startswith(CARRIED)}

    @property
    def assets_dir(self) -> Path:
        """Folder of vocabularies and tokenizer models."""
        return self.path / ASSETS

    def check_finite(self, optimizer: bool = False) -> None:
        """Raises CheckpointError when a weight, or with ``optimizer`` a number of the optimizer, is inf or NaN."""
        kept = {name: value for name, value in self.optimizer.items()
                if name.startswith(AVERAGE) or (optimizer and not name.startswith(CARRIED))}
        for name, value in {**self.weights, **kept}.items():
            if value.dtype.kind == "f" and not _is_finite(value):
                raise CheckpointError(f"The checkpoint {self.path} cannot be used: {name} has values that are inf or "
                                      "NaN. Name another checkpoint, or remove this folder to use the one before it.")


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Reads and verifies a checkpoint folder. No link in it is followed, and no file is read that it does not list.

    Raises:
      CheckpointError: a file is missing, truncated, altered or a link, or its header does not fit its content.
    """
    path = Path(path)
    state = read_state(path)
    with _reported(path):
        _verify(path, state)
        return Checkpoint(path, load_tensors(path, WEIGHTS), load_tensors(path, OPTIMIZER),
                          {name: value for name, value in state.items() if name != CHECKSUMS},
                          read_own(path, CONFIG, _MOST_CONFIG_BYTES).decode("utf-8"), _assets(path, state),
                          state[CHECKSUMS])


def verified_assets(path: str | Path) -> dict[str, Path]:
    """Returns the assets of a checkpoint by name, after verifying all of its files.

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
        raise CheckpointError(f"The checkpoint {path} is of step {state['step']}, as its state.json says, but its name "
                              f"says {named}: give it the name of its step.")


def _is_finite(array: np.ndarray) -> bool:
    """Whether all numbers are finite; examined in parts, because the flags take memory too."""
    flat = array.reshape(-1)
    return all(np.isfinite(flat[begin:begin + _FINITE_AT_ONCE]).all() for begin in range(0, len(flat), _FINITE_AT_ONCE))


@contextlib.contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Within this context, errors of a file are raised as CheckpointError, so that an older checkpoint is tried."""
    try:
        yield
    except CheckpointError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:
        raise CheckpointError(f"The checkpoint {path} is damaged: {error}.") from error


def load_first_whole(paths: Iterable[Path]) -> Checkpoint:
    """Reads the first checkpoint that is whole; reports each damaged one before it.

    Args:
      paths: checkpoint folders, the preferred one first.

    Raises:
      CheckpointError: none is whole.
    """
    return first_whole(paths, load_checkpoint)


def first_whole(paths: Iterable[Path], read: Callable[[Path], Found]) -> Found:
    """Returns the result of ``read`` for the first checkpoint that it accepts; see ``load_first_whole``."""
    last: CheckpointError | None = None
    for path in paths:
        try:
            return read(path)
        except CheckpointAccessError:  # it is not damaged, and an older one must not replace it
            raise
        except CheckpointError as error:
            deco_print(f"WARNING: {error} Trying the checkpoint before it.")
            last = error
    if last is None:
        raise CheckpointError("There is no checkpoint to read.")
    raise CheckpointError(f"No whole checkpoint is left. {last}") from last
