"""Writes and reads the batches on which training diverged, so that they can be replayed."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.own_files import NotOwnFileError, open_own, read_own

BATCH = "batch.npz"
CARRIED = "carried.npz"
EVENT = "event.json"
CONFIG = "config.yaml"
_MOST_EVENT_BYTES = 1 << 22
_MOST_ARRAY_BYTES = 1 << 34
_MOST_ARRAYS = 10_000
_DEEPEST = 20
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, RecursionError, zipfile.BadZipFile, zlib.error,
               NotOwnFileError)
# Entries of an event that a replay needs, with their types.
_EVENT = {"step": (int,), "seed": (int,), "checkpoint": (str, type(None)), "dtype": (str,), "reason": (str,),
          "loss_scale": (int, float)}


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Returns the arrays of a batch by path, such as ``source_tensors/0`` or ``ids``."""
    if isinstance(value, Mapping):
        children = [(str(key), child) for key, child in value.items()]
    elif isinstance(value, (list, tuple)):
        children = [(str(number), child) for number, child in enumerate(value)]
    else:
        return {path: value}
    return {name: array for key, child in children
            for name, array in flatten(child, f"{path}/{key}" if path else key).items()}


def unflatten(arrays: Mapping[str, Any]) -> Any:
    """Inverts ``flatten``; tuples become lists."""
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
                carried: Mapping[str, np.ndarray] = MappingProxyType({})) -> Path:
    """Writes a batch and a description of the divergence to a temporary folder, which is then renamed.

    Args:
      folder: folder to create; if it exists already, a number is added to its name.
      batch: nested dicts and lists of arrays.
      event: JSON-serialisable description of the divergence; see ``Incident.summary`` and ``Incident.details``.
      config_yaml: the resolved config.
      carried: states ``[rows, …]`` that the model continued from, by path.

    Returns:
      The folder that was created.

    Raises:
      OSError: the folder cannot be written.
    """
    if folder.parent.is_symlink():
        raise disk.ForeignError(folder.parent, disk.LINK)
    disk.remove_unfinished(folder.parent)
    folder = disk.free_name(folder)
    arrays: dict[str, Any] = {path: _plain(array) for path, array in flatten(batch).items()}
    with disk.new_folder(folder, lambda _: None) as aside:
        _write_arrays(aside / BATCH, arrays)
        if carried:
            _write_arrays(aside / CARRIED, carried)
        disk.write_new(aside / EVENT, json.dumps(event, indent=1) + "\n")
        disk.write_new(aside / CONFIG, config_yaml)
    return folder


def _write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    with open(path, "xb") as file:
        np.savez_compressed(file, **dict(arrays))


def _plain(array: Any) -> np.ndarray:
    """Returns the data as an array that NumPy can write without pickling."""
    array = np.asarray(array)
    return array.astype(str) if array.dtype.kind == "O" else array


def read_carried(folder: Path) -> dict[str, np.ndarray]:
    """Reads the carried states with which the model began the batch, by path; the dict is empty if there are none.

    The file is loaded without unpickling, so it cannot execute code.

    Raises:
      UserError: the file cannot be read, or has another format.
    """
    try:
        return _read_arrays(folder, CARRIED)
    except FileNotFoundError:
        return {}
    except _UNREADABLE as error:
        raise UserError(f"{folder / CARRIED} cannot be read as the states of a diverged run ({error}): give a folder "
                        "whose files have not been changed.") from error


def read_batch(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads (batch, event) from a folder, as given to ``write_batch``. Nothing in the files is executed.

    Raises:
      UserError: a file is missing, unreadable, or has another format.
    """
    try:
        batch = unflatten(_read_arrays(folder, BATCH))
        return batch, json.loads(read_own(folder, EVENT, _MOST_EVENT_BYTES).decode("utf-8"))
    except _UNREADABLE as error:
        raise UserError(f"{folder} has no batch to replay ({error}): give a folder that a diverged run has written, "
                        "such as LOGDIR/divergence/step-100.") from error


def _read_arrays(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Reads the arrays of an untrusted ``.npz`` file, without following links or unpickling, up to a limited size."""
    with open_own(folder, name) as file, zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > _MOST_ARRAY_BYTES or len(entries) > _MOST_ARRAYS:
            raise ValueError(f"{name} has more data than a batch can have")
        if any(entry.filename.count("/") > _DEEPEST for entry in entries):
            raise ValueError(f"{name} has names with more than {_DEEPEST} slashes")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {path: arrays[path] for path in arrays.files}


def check_event(folder: Path, event: Any) -> None:
    """Raises UserError if an event lacks an entry needed for a replay, or if one has the wrong type."""
    missing = [name for name, kinds in _EVENT.items() if not isinstance(event, dict)
               or type(event.get(name)) not in kinds]
    if missing:
        raise UserError(f"{folder / EVENT}: the entry '{missing[0]}' is missing or has the wrong type: give a folder "
                        "whose files have not been changed.")
