"""Reading checkpoints: verified by checksum, never executing anything."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.training.checkpoints.files import (
    ASSETS,
    AVERAGE,
    CARRIED,
    CONFIG,
    FORMAT_VERSION,
    OPTIMIZER,
    STATE,
    STATE_CHECKSUM,
    WEIGHTS,
    sha256,
    state_checksum,
)
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError


@dataclass
class Checkpoint:
    """A checkpoint in memory.

    Attributes:
      path: its folder.
      weights: FP32 weights by name.
      optimizer: slots, counters, loss scale and what else a run goes on from, by name.
      state: step, seed, metrics.
      config_yaml: the resolved config.
    """

    path: Path
    weights: dict[str, np.ndarray]
    optimizer: dict[str, np.ndarray]
    state: dict[str, Any]
    config_yaml: str

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


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Reads and verifies a checkpoint folder.

    Raises:
      CheckpointError: a file is missing, truncated or altered.
    """
    from safetensors.numpy import load_file

    path = Path(path)
    try:
        state = read_state(path)
        for name, checksum in state.pop("sha256").items():
            if sha256(path / name) != checksum:
                raise CheckpointError(f"The checkpoint {path} is damaged: {name} is truncated or altered.")
        return Checkpoint(path, load_file(path / WEIGHTS), load_file(path / OPTIMIZER), state,
                          (path / CONFIG).read_text(encoding="utf-8"))
    except CheckpointError:
        raise
    except Exception as error:  # whatever is wrong with a file, the one before may be whole
        reason = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else error
        raise CheckpointError(f"The checkpoint {path} is damaged: {reason}.") from error


def read_state(path: Path) -> dict[str, Any]:
    """Returns a checkpoint's ``state.json``, verified by its own checksum.

    Raises:
      CheckpointError: it is altered, or of another kind.
    """
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
    except ValueError as error:
        reason = f"{STATE} is truncated or altered ({error})"
        raise CheckpointError(f"The checkpoint {path} is damaged: {reason}.") from error
    if not isinstance(state, dict) or "format" not in state:
        raise CheckpointError(f"The folder {path} is no checkpoint of this package: its {STATE} has another form.")
    if state["format"] > FORMAT_VERSION:
        raise CheckpointError(f"The checkpoint {path} was written by a newer version: update this package.")
    if state.pop(STATE_CHECKSUM, None) != state_checksum(state):
        raise CheckpointError(f"The checkpoint {path} is damaged: {STATE} is truncated or altered.")
    del state["format"]
    return state


def load_first_whole(paths: Iterable[Path]) -> Checkpoint:
    """Reads the first checkpoint that is whole; reports each damaged one before it.

    Args:
      paths: checkpoint folders, the preferred one first.

    Raises:
      CheckpointError: none is whole.
    """
    last: CheckpointError | None = None
    for path in paths:
        try:
            return load_checkpoint(path)
        except CheckpointError as error:
            deco_print(f"WARNING: {error} Trying the checkpoint before it.")
            last = error
    if last is None:
        raise CheckpointError("There is no checkpoint to read.")
    raise CheckpointError(f"No whole checkpoint is left. {last}") from last
