"""The inputs of a run: the files that are copied into its checkpoints, and fingerprints of its data."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from open_seq2seq.checkpoints import Checkpoint
from open_seq2seq.checkpoints.kept_files import assets_of, model_files
from open_seq2seq.checkpoints.state import ASSETS
from open_seq2seq.config.files import ASSET
from open_seq2seq.config.serialize import to_plain
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.fingerprints import Identity, digest_of_array, identity_of
from open_seq2seq.models.builder import ModelSpec
from open_seq2seq.models.model import Model
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_data
from open_seq2seq.utils.errors import CheckpointError, DataError

_WORDS = {"train": "training", "eval": "evaluation"}
_MOST_ASSET_BYTES = 1 << 30  # larger files belong beside the checkpoints (file="large")


@dataclass(frozen=True)
class Asset:
    """A file that is copied into each checkpoint, as it was when it was first read.

    Attributes:
      path: the file.
      content: its content in bytes.
      identity: see ``data.fingerprints.Fingerprint``.
    """

    path: str
    content: bytes
    identity: Identity | None

    @classmethod
    def read(cls, path: str) -> Asset:
        """Reads a file; raises DataError if it is missing, unreadable or too large."""
        identity = identity_of(path)  # before the content, so that a change meanwhile is noticed
        return cls(path, read_data(path, most_bytes=_MOST_ASSET_BYTES), identity)

    @property
    def is_current(self) -> bool:
        """Whether the file still has this content; reads the file only if its identity has changed."""
        if identity_of(self.path) == self.identity:
            return True
        with contextlib.suppress(DataError):
            return Asset.read(self.path).content == self.content
        return False


def read_assets(spec: ModelSpec) -> dict[str, Asset]:
    """Returns the files of a model that are copied into checkpoints, by path.

    Call this before the model is built. Files that are missing, unreadable or too large are left out; the component
    that needs them reports the error.
    """
    assets = {}
    for file in model_files(spec.model_class, spec.params):
        if file.kind == ASSET and file.value and os.path.isfile(file.value):
            with contextlib.suppress(OSError, DataError):
                if os.path.getsize(file.value) <= _MOST_ASSET_BYTES:
                    assets[file.value] = Asset.read(file.value)
    return assets


class RunInputs:
    """The files and data that a run uses, as they were when its models were built.

    Args:
      model: the model.
      eval_model: the model for evaluation during training, or None.
      before: the files that were read before the models were built, by path; see ``read_assets``.

    Attributes:
      assets: the files that are copied into each checkpoint, by name in the checkpoint.

    Raises:
      DataError: a file has changed since it was read.
    """

    def __init__(self, model: Model, eval_model: Model | None, before: Mapping[str, Asset]) -> None:
        self.assets = {name: before.get(path) or Asset.read(path) for name, path in assets_of(model).items()}
        for asset in self.assets.values():
            if not asset.is_current:
                raise DataError(f"{asset.path} has changed since this run first read it: restore the original file, or "
                                "start again when nothing is writing to it.")
        layers = {"train": model.data_layer, "eval": None if eval_model is None else eval_model.data_layer}
        self._layers = {name: layer for name, layer in layers.items() if isinstance(layer, DataLayer)}
        for layer in self._layers.values():
            layer.check_unchanged()
        self._reported: set[str] = set()

    def contents(self) -> dict[str, bytes]:
        """Returns the contents of the assets by name, as the run read them; warns once of each that has changed."""
        for asset in self.assets.values():
            if asset.path not in self._reported and not asset.is_current:
                self._reported.add(asset.path)
                what = "changed" if os.path.exists(asset.path) else "been removed"
                deco_print(f"WARNING: {asset.path} has {what} since this run read it: the run and its checkpoints "
                           "keep using the original content.")
        return {name: asset.content for name, asset in self.assets.items()}

    @functools.cached_property
    def data(self) -> dict[str, Any]:
        """Fingerprints of the data by section, for a checkpoint's state; see ``describe_data``."""
        return {name: describe_data(layer) for name, layer in self._layers.items()}

    def check_assets(self, checkpoint: Checkpoint) -> None:
        """Raises CheckpointError if an asset, such as a vocabulary, differs from the checkpoint's copy."""
        for name, asset in self.assets.items():
            checksum = checkpoint.checksums.get(f"{ASSETS}/{name}")
            if checksum is None or hashlib.sha256(asset.content).hexdigest() == checksum:
                continue
            copy = checkpoint.path / ASSETS / name
            layer = self._layers.get("train")
            of_layer = None if layer is None else layer.asset_mismatch(name, str(copy))
            raise CheckpointError(of_layer or f"{asset.path} is not the file that {checkpoint.path} was trained with: "
                                  f"its content differs from {copy}. Name that copy in the config.")

    def check(self, checkpoint: Checkpoint) -> None:
        """Compares the inputs with those of the checkpoint to resume from, and prints how the data has changed.

        Raises:
          CheckpointError: see ``check_assets``.
        """
        self.check_assets(checkpoint)
        before = checkpoint.state.get("data", {})  # older checkpoints have none
        for section, now in self.data.items():
            for line in data_changes(before.get(section, {}), now):
                deco_print(f"The {_WORDS[section]} data has changed since {checkpoint.path.name}: {line}.")


def describe_data(layer: DataLayer) -> dict[str, Any]:
    """Returns JSON-serialisable values that identify the data of a layer.

    Returns:
      A dict: ``files`` has a fingerprint of each file as a dict, ``examples`` the number of examples, ``lengths`` and
      ``contents`` digests of the examples' lengths and contents, and ``params`` a digest of the layer's parameters.
    """
    files = {name: {"path": file.path, "size": file.size, "mtime_ns": file.mtime_ns, "sha256": file.sha256,
                    "sampled": not file.whole} for name, file in layer.fingerprints.items()}
    params = {name: to_plain(value) for name, value in sorted(layer.params.items())}
    return {"files": files, "examples": int(layer.num_examples), "lengths": digest_of_array(layer.lengths),
            "contents": layer.sample_digest(), "params": hashlib.sha256(repr(params).encode()).hexdigest()}


def data_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the differences between two data sets, as clauses such as ``train.csv is new``.

    Args:
      before: earlier result of ``describe_data``; {} if unknown.
      now: current result of ``describe_data``.
    """
    if not before:
        return []
    lines = [f"{file['path']} is no longer part of it" for name, file in before["files"].items()
             if name not in now["files"]]
    for name, file in now["files"].items():
        old = before["files"].get(name)
        if old is None:
            lines.append(f"{file['path']} is new")
        elif any(old[entry] != file[entry] for entry in ("size", "sampled", "sha256")):
            lines.append(f"the content of {file['path']} differs")
        elif file["sampled"] and old["mtime_ns"] != file["mtime_ns"]:
            lines.append(f"{file['path']} has another modification time; its size and the sampled parts of its content "
                         "are the same")
    if not lines and before["params"] == now["params"]:
        if before["lengths"] != now["lengths"]:
            return [f"the lengths of its examples differ ({now['examples']:,} examples now, {before['examples']:,} "
                    "before)"]
        if before["contents"] != now["contents"]:
            return ["the content of some of its files differs"]
    return lines
