"""Reading checkpoints: verified by checksum, never executing anything."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from open_seq2seq.training.checkpoints.files import ASSETS, CONFIG, FORMAT_VERSION, OPTIMIZER, STATE, WEIGHTS, sha256
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError


@dataclass
class Checkpoint:
    """A checkpoint in memory.

    Attributes:
      path: its folder.
      weights: FP32 weights by name.
      optimizer: slots, counters and loss scale by name.
      state: step, seed, metrics.
      config_yaml: the resolved config.
    """

    path: Path
    weights: dict[str, np.ndarray]
    optimizer: dict[str, np.ndarray]
    state: dict[str, Any]
    config_yaml: str

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
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        checksums = state.pop("sha256")
        if state.pop("format") > FORMAT_VERSION:
            raise CheckpointError(f"The checkpoint {path} was written by a newer version: update this package.")
        for name, checksum in checksums.items():
            if sha256(path / name) != checksum:
                raise CheckpointError(f"The checkpoint {path} is damaged: {name} is truncated or altered.")
        return Checkpoint(path, load_file(path / WEIGHTS), load_file(path / OPTIMIZER), state,
                          (path / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"The checkpoint {path} is damaged: {error}.") from error


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
            deco_print(f"{error} Trying the checkpoint before it.")
            last = error
    raise CheckpointError(f"No whole checkpoint is left. {last}") from last
