"""Batches on which a training diverged, kept on disk so that they can be run again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from open_seq2seq.training.checkpoints.files import TEMPORARY
from open_seq2seq.utils.errors import UserError

BATCH = "batch.npz"
CARRIED = "carried.npz"
EVENT = "event.json"
CONFIG = "config.yaml"


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Returns the arrays of a batch by path: ``source_tensors/0``, ``ids``."""
    if isinstance(value, Mapping):
        children = [(str(key), child) for key, child in value.items()]
    elif isinstance(value, (list, tuple)):
        children = [(str(number), child) for number, child in enumerate(value)]
    else:
        return {path: value}
    return {name: array for key, child in children
            for name, array in flatten(child, f"{path}/{key}" if path else key).items()}


def unflatten(arrays: Mapping[str, Any]) -> Any:
    """Undoes ``flatten``; tuples come back as lists."""
    if set(arrays) == {""}:
        return arrays[""]
    groups: dict[str, dict[str, Any]] = {}
    for path, array in arrays.items():
        head, _, rest = path.partition("/")
        groups.setdefault(head, {})[rest] = array
    if groups and all(key.isdecimal() for key in groups):
        return [unflatten(groups[key]) for key in sorted(groups, key=int)]
    return {key: unflatten(group) for key, group in groups.items()}


def write_batch(folder: Path, batch: dict[str, Any], event: Mapping[str, Any], config_yaml: str,
                carried: Mapping[str, np.ndarray] = MappingProxyType({})) -> None:
    """Writes a batch and what happened on it: aside first, then renamed.

    Args:
      folder: to be made; one that is there already is replaced.
      batch: nested dict and lists of arrays.
      event: what JSON can hold.
      config_yaml: the resolved config.
      carried: states that the model went on from, by path.

    Raises:
      OSError: it cannot be written.
    """
    aside = folder.parent / f"{TEMPORARY}{folder.name}"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    arrays: dict[str, Any] = {path: _plain(array) for path, array in flatten(batch).items()}
    np.savez_compressed(aside / BATCH, **arrays)
    if carried:
        named: dict[str, Any] = dict(carried)
        np.savez_compressed(aside / CARRIED, **named)
    (aside / EVENT).write_text(json.dumps(event, indent=1) + "\n", encoding="utf-8")
    (aside / CONFIG).write_text(config_yaml, encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(aside, folder)


def _plain(array: Any) -> np.ndarray:
    """An array that NumPy writes without pickling."""
    array = np.asarray(array)
    return array.astype(str) if array.dtype.kind == "O" else array


def read_carried(folder: Path) -> dict[str, np.ndarray]:
    """Reads the states that the model went on from, by path; {} where it carries none. Nothing is executed.

    Raises:
      UserError: the file has another form.
    """
    try:
        with np.load(folder / CARRIED, allow_pickle=False) as arrays:
            return {path: arrays[path] for path in arrays.files}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder / CARRIED} does not hold what a diverged run has written ({error}): name a folder "
                        "that is as it was written.") from error


def read_batch(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads (batch, event). Nothing in the files is executed.

    Raises:
      UserError: a file is missing or has another form.
    """
    try:
        with np.load(folder / BATCH, allow_pickle=False) as arrays:
            batch = unflatten({path: arrays[path] for path in arrays.files})
        return batch, json.loads((folder / EVENT).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder} holds no batch to replay ({error}): name a folder that a diverged run has written, "
                        "as in LOGDIR/divergence/step-100.") from error
