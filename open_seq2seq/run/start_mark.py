"""Marks a log directory whose run has not completed a checkpoint yet, so that the run can be begun anew.

The mark is written before anything else of a new run, and removed once its first regular checkpoint is complete. If it
is there and no checkpoint is, everything else that a run has written to the directory belongs to its start.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from typing import BinaryIO

from open_seq2seq.config.resolve import RunOptions
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.own_files import NotOwnFileError, read_own

START_MARK = ".run-start.json"
_RUN, _CONFIG = "run", "config_sha256"
_MOST_BYTES = 1 << 12


def write_mark(root: Path, run: str, options: RunOptions) -> None:
    """Marks a log directory as that of a run that starts.

    Raises:
      UserError: the mark cannot be written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        disk.remove_unfinished(root)
        with disk.writing(root / START_MARK, _is_mark) as file:
            file.write(json.dumps({_RUN: run, _CONFIG: _config_checksum(options)}).encode())
    except OSError as error:
        raise UserError(f"The log directory {root} cannot be written: {error.strerror} ({error.filename}).") from error


def is_marked(root: Path) -> bool:
    """Returns whether a log directory holds the mark of a run that has not completed a checkpoint."""
    return _read(root) is not None


def started_run(root: Path, options: RunOptions) -> str:
    """Returns the name of the run that has started in a log directory, or a new name if its config was another one."""
    mark = _read(root) or {}
    return mark[_RUN] if mark.get(_CONFIG) == _config_checksum(options) else uuid.uuid4().hex


def _config_checksum(options: RunOptions) -> str:
    return hashlib.sha256(to_yaml(options.config.as_sections()).encode()).hexdigest()


def _read(root: Path) -> dict[str, str] | None:
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


def _is_mark(file: BinaryIO) -> bool:
    return _parsed(file.read(_MOST_BYTES)) is not None
