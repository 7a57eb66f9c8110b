"""The inputs of a run: the files that are copied into its checkpoints, and fingerprints of its data."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from open_seq2seq.checkpoints import Checkpoint
from open_seq2seq.checkpoints.files import ASSETS
from open_seq2seq.checkpoints.kept_files import asset_error, assets_of, model_files
from open_seq2seq.config.files import ASSET
from open_seq2seq.config.serialize import to_plain
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.fingerprints import Fingerprint, Identity, digest_of_array, identity_of
from open_seq2seq.models.builder import ModelSpec
from open_seq2seq.models.model import Model
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_data
from open_seq2seq.utils.errors import DataError

Contents = dict[str, bytes]
_SAMPLED = "the sampled parts of its content"
_WORDS = {"train": "training", "eval": "evaluation"}
_BLOCK_BYTES = 1 << 20
_MOST_ASSET_BYTES = 1 << 30  # larger files belong beside the checkpoints (file="large")
# While hashing whole files, the background thread sleeps this many times as long as it works, so that it does not slow
# training down.
_IDLE_PARTS = 20


@dataclass(frozen=True)
class Asset:
    """A file that is copied into each checkpoint, as it was when the model was built.

    Attributes:
      path: the file.
      content: its content in bytes.
      identity: see ``data.fingerprints.Fingerprint``; None if the file did not exist.
    """

    path: str
    content: bytes
    identity: Identity | None

    @property
    def sha256(self) -> str:
        """SHA-256 checksum of the content."""
        return hashlib.sha256(self.content).hexdigest()


def read_assets(spec: ModelSpec) -> Contents:
    """Returns the contents, by path, of the files of a model that are copied into checkpoints.

    Call this before the model is built. Files that are missing, unreadable or too large are left out; the component
    that needs them reports the error.
    """
    contents: Contents = {}
    for file in model_files(spec.model_class, spec.params):
        if file.kind == ASSET and file.value and os.path.isfile(file.value):
            with contextlib.suppress(OSError, DataError):
                if os.path.getsize(file.value) <= _MOST_ASSET_BYTES:
                    contents[file.value] = read_data(file.value)
    return contents


class RunInputs:
    """The files and data that a run uses, as they were when its models were built.

    Args:
      model: the training model.
      eval_model: the model for evaluation during training, or None.
      before: result of ``read_assets`` from before the models were built.
      earlier: inputs of the models that the run had built before, if any.

    Attributes:
      assets: the files that are copied into each checkpoint, by name in the checkpoint.

    Raises:
      DataError: a file has changed since ``before`` was read, or since ``earlier`` was created.
    """

    def __init__(self, model: Model, eval_model: Model | None, before: Contents,
                 earlier: RunInputs | None = None) -> None:
        self.assets = {name: _held(path, before) for name, path in assets_of(model).items()}
        layers = {"train": model.data_layer, "eval": None if eval_model is None else eval_model.data_layer}
        self._layers = {name: layer for name, layer in layers.items() if isinstance(layer, DataLayer)}
        for layer in self._layers.values():
            layer.check_unchanged()
        for name, asset in self.assets.items() if earlier is not None else ():
            if earlier is not None and asset.content != earlier.assets[name].content:
                raise DataError(f"{asset.path} has changed since this run started: restore the original file.")
        self._said: set[tuple[Identity | None, str]] = set()
        self._hashing: _WholeHashes | None = None

    def contents(self) -> Contents:
        """Returns the contents of the assets by name, as the run read them; warns if files have changed since."""
        for asset in self.assets.values():
            identity = identity_of(asset.path)
            if identity != asset.identity and (identity, asset.path) not in self._said:
                self._said.add((identity, asset.path))
                what = "been removed" if identity is None else "changed"
                if identity is None or _content(asset.path) != asset.content:
                    deco_print(f"WARNING: {asset.path} has {what} since this run read it: the run and its checkpoints "
                               "keep using the original content.")
        return {name: asset.content for name, asset in self.assets.items()}

    def state(self) -> dict[str, Any]:
        """Returns the fingerprints of the data by section, for a checkpoint's state; see ``describe_data``.

        The first call starts a thread that computes the checksums of whole large files, which later results include as
        ``whole``.
        """
        if self._hashing is None:
            self._hashing = _WholeHashes([file for layer in self._layers.values()
                                          for file in layer.fingerprints.values() if not file.whole])
        for data in self.described.values():
            for file in data["files"].values():
                if file["path"] in self._hashing.found:
                    file["whole"] = self._hashing.found[file["path"]]
        return copy.deepcopy(self.described)

    @functools.cached_property
    def described(self) -> dict[str, Any]:
        """The results of ``describe_data``, by section."""
        return {name: describe_data(layer) for name, layer in self._layers.items()}

    def check(self, checkpoint: Checkpoint, whole: bool = False) -> None:
        """Compares the inputs with those of a checkpoint's run, and prints how the data has changed.

        Args:
          checkpoint: the checkpoint from which the run resumes.
          whole: whether large files are compared in full, and unchanged data is reported too.

        Raises:
          CheckpointError: an asset, such as a vocabulary, differs.
        """
        for name, asset in self.assets.items():
            checksum = checkpoint.checksums.get(f"{ASSETS}/{name}")
            if checksum is not None and asset.sha256 != checksum:
                raise asset_error(self._layers.get("train"), name, asset.path, checkpoint)
        before = checkpoint.state.get("data", {})  # older checkpoints have none
        for section, now in self.described.items():
            lines = data_changes(before.get(section, {}), now, whole)
            for line in lines:
                deco_print(f"The {_WORDS[section]} data has changed since {checkpoint.path.name}: {line}.")
            if whole and section in before and not lines:
                deco_print(f"The {_WORDS[section]} data is the same as for {checkpoint.path.name}: " + " ".join(
                    f"{file['path']} (SHA-256 {hash_slowly(file['path'], 0)})" for file in now["files"].values()))


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


def data_changes(before: Mapping[str, Any], now: Mapping[str, Any], whole: bool = False) -> list[str]:
    """Returns the differences between two data sets, as clauses such as ``train.csv is new``.

    Args:
      before: earlier result of ``describe_data``; {} if unknown.
      now: current result of ``describe_data``.
      whole: whether large files are compared in full, if the earlier checksum is known.
    """
    if not before:
        return []
    lines = [f"{file['path']} is no longer part of it" for name, file in before["files"].items()
             if name not in now["files"]]
    for name, file in now["files"].items():
        lines += _file_changes(before["files"].get(name), file, whole)
    if not lines and before["params"] == now["params"]:
        lines += [] if before["lengths"] == now["lengths"] else [
            f"the lengths of its examples differ ({now['examples']:,} examples now, {before['examples']:,} before)"]
        lines += [] if before["contents"] == now["contents"] or lines else ["the content of some of its files differs"]
    return lines


def _file_changes(before: Mapping[str, Any] | None, now: Mapping[str, Any], whole: bool) -> list[str]:
    path = now["path"]
    if before is None:
        return [f"{path} is new"]
    if (before["size"], before["sampled"], before["sha256"]) != (now["size"], now["sampled"], now["sha256"]):
        return [f"the content of {path} differs"]
    if not now["sampled"] or (before["mtime_ns"] == now["mtime_ns"] and not whole):
        return []
    if whole and "whole" in before:
        return [] if hash_slowly(path, 0) == before["whole"] else [f"the content of {path} differs"]
    if before["mtime_ns"] == now["mtime_ns"]:
        return []
    return [f"{path} has another modification time; its size and {_SAMPLED} are the same" + (
        "" if whole else "; --check --continue_learning compares the whole file")]


def hash_slowly(path: str, idle_parts: float) -> str:
    """Returns a file's SHA-256 checksum; after each block, sleeps ``idle_parts`` times as long as the block took."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        began = time.perf_counter()
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            time.sleep(idle_parts * (time.perf_counter() - began))
            began = time.perf_counter()
    return digest.hexdigest()


class _WholeHashes:
    """Checksums of the complete content of large files, computed by a background thread during the run.

    Args:
      files: fingerprints of the files.

    Attributes:
      found: checksums by path, for the files that have been hashed so far.
    """

    def __init__(self, files: list[Fingerprint]) -> None:
        self.found: dict[str, str] = {}
        self._files = files
        if files:
            threading.Thread(target=self._hash, name="fingerprints", daemon=True).start()

    def _hash(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):
                checksum = hash_slowly(file.path, _IDLE_PARTS)
                if identity_of(file.path) == file.identity:
                    self.found[file.path] = checksum


def check_read(model: Model, before: Contents) -> None:
    """Raises DataError if an asset or data file has changed while a model was being built.

    Args:
      model: the model.
      before: result of ``read_assets`` from before the model was built.
    """
    for path in assets_of(model).values():
        _held(path, before)
    if isinstance(model.data_layer, DataLayer):
        model.data_layer.check_unchanged()


def _content(path: str) -> bytes | None:
    with contextlib.suppress(DataError):
        return read_data(path, most_bytes=_MOST_ASSET_BYTES)
    return None


def _held(path: str, before: Contents) -> Asset:
    """Returns a file as it is now; raises DataError if its content differs from that in ``before``."""
    identity, content = identity_of(path), read_data(path, most_bytes=_MOST_ASSET_BYTES)
    if before.get(path, content) != content:
        raise DataError(f"{path} changed while it was being read: start again when nothing is writing to it.")
    return Asset(path, content, identity)
