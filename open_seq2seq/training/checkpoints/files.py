"""Names inside a checkpoint folder, and checksums."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
CONFIG = "config.yaml"
ASSETS = "assets"
TEMPORARY = ".tmp-"
FORMAT_VERSION = 1


def sha256(path: str | os.PathLike[str]) -> str:
    """Returns the checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Makes sure that a file or a folder's entries are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
