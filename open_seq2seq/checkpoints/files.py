"""File names and keys in a checkpoint, and checksums."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from io import BufferedReader
from typing import Any

WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
CONFIG = "config.yaml"
ASSETS = "assets"
# Key prefix of averaged weights in the optimizer's file.
AVERAGE = "ema/"
# Key prefix, in the same file, of the states that a model carries from batch to batch.
CARRIED = "carried/"
# Key, in a checkpoint's state, of the name of the run that wrote it. A run never removes checkpoints of other runs.
RUN = "run"
# Keys, in a checkpoint's state, of the metrics of its evaluation, and of a string that identifies the learning-rate
# schedule (``MixedPrecisionOptimizer.rates``).
METRICS = "metrics"
RATES = "rates"
STATE_CHECKSUM = "state_sha256"
FORMAT_VERSION = 1


def sha256(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 checksum of a file."""
    with open(path, "rb") as file:
        return sha256_of(file)


def sha256_of(file: BufferedReader) -> str:
    """Returns the SHA-256 checksum of an open file from its current position to its end."""
    return hashlib.file_digest(file, "sha256").hexdigest()


def state_checksum(state: Mapping[str, Any]) -> str:
    """Returns the checksum of a state after a JSON round trip, without the entry for this checksum."""
    rest = json.loads(json.dumps({key: value for key, value in state.items() if key != STATE_CHECKSUM}))
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()

