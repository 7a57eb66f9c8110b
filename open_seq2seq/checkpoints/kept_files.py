"""Keeps the files that inference needs besides weights and config, and finds them again.

Parameters declare such files by ``Param(file=…)``. Each ``asset`` of the training model is copied into every
checkpoint. ``large`` files, and assets that only evaluation or inference uses, are copied once for each of the
``MODES``, to a folder beside the checkpoints that has a list of its copies. It is called ``language_models``, because
it had no others at first.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from open_seq2seq.checkpoints import verified_assets
from open_seq2seq.checkpoints.folders import AVERAGED, BEST_MODELS, KEPT_FILES
from open_seq2seq.config.files import ASSET, LARGE, NamedFile, named_files_below
from open_seq2seq.config.names import part_class
from open_seq2seq.config.overrides import Override
from open_seq2seq.data.data_layer import DataLayer, asset_name
from open_seq2seq.models.model import Model
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError
from open_seq2seq.utils.own_files import NotOwnFileError, open_own

LIST = "copies.json"
MODES = ("eval", "infer", "interactive_infer")
_TRAIN = "train"
_DATA = ("data_layer_params",)
_COMPRESSED = ".gz"  # kept in the copy's name, because readers check the suffix


def assets_of(model: Model) -> dict[str, str]:
    """Returns the paths of the files that are copied into each checkpoint of a model, by name in ``assets``."""
    declared = {_asset_name(file): file.value for file in model_files(type(model), model.params)
                if file.kind == ASSET and file.part != _DATA and file.value is not None}
    return {**declared, **model.data_layer.assets()}


def keep_files(folder: Path, base_model: Any, params_of: Mapping[str, Mapping[str, Any]]) -> None:
    """Copies the files that inference needs, and that checkpoints do not contain, to a folder beside the checkpoints.

    A file that cannot be read or copied is reported and left out, because training does not need it; an earlier copy of
    the file is kept. Copies of files that the config no longer names are removed.

    Args:
      folder: folder of the checkpoints.
      base_model: the model's class, or its name.
      params_of: the model's parameters in ``train`` and each of ``MODES``; missing modes are ignored.
    """
    trained = {file.path: file.value for file in model_files(base_model, params_of.get(_TRAIN, {}))
               if file.kind == ASSET}
    wanted = {_beside_name(mode, file): Path(file.value)
              for mode in MODES for file in model_files(base_model, params_of.get(mode, {}))
              if file.value is not None and trained.get(file.path) != file.value}
    copies = disk.ListedFolder(folder / KEPT_FILES, LIST)
    twins: dict[Path, str] = {}  # source → name of its first copy
    for name, source in wanted.items():
        try:
            _copy(copies, name, source, twins.get(source))
        except disk.ForeignError as error:
            problem = error.strerror
        except OSError as error:
            consequence = "an earlier copy is kept" if _has_copy(folder, name) else "inference will need the original"
            problem = f"{error.strerror or error}: {consequence}"
        else:
            twins.setdefault(source, name)
            continue
        deco_print(f"The file {source} cannot be copied to {copies.folder / name} ({problem}).")
    if others := [name for name in copies.names if name not in wanted]:
        with contextlib.suppress(OSError):
            copies.remove(others)


def _copy(copies: disk.ListedFolder, name: str, source: Path, twin: str | None) -> None:
    """Puts a copy of ``source`` into a folder, unless it has an up-to-date copy: a hard link to ``twin``, if possible.

    The source itself is never linked, because it may be changed in place.

    Raises:
      disk.ForeignError: the folder has a file of this name that no run has created.
      OSError: the source cannot be read, or the folder cannot be written.
    """
    status = source.stat()
    with contextlib.suppress(OSError, NotOwnFileError), copies.open(name) as file:
        copy_status = os.fstat(file.fileno())
        # Some file systems store times in whole seconds.
        if (copy_status.st_size, int(copy_status.st_mtime)) == (status.st_size, int(status.st_mtime)):
            return
    if twin is not None and twin in copies.names:
        with contextlib.suppress(OSError):  # a file system without hard links
            copies.link(name, twin)
            return
    with copies.putting(name) as copy:
        shutil.copyfile(source, copy)
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))  # lets the next run recognise the copy


def _has_copy(folder: Path, name: str) -> bool:
    """Returns whether the copies beside the checkpoints of a folder include a file of this name.

    Raises:
      CheckpointError: the file is a symbolic link, not a regular file, or unreadable.
    """
    try:
        open_own(folder, f"{KEPT_FILES}/{name}").close()
    except FileNotFoundError:
        return False
    except NotOwnFileError as error:
        raise CheckpointError(f"In {folder / KEPT_FILES}, {error}: replace it with a file, or remove it.") from error
    except OSError as error:
        raise CheckpointError(f"{folder / KEPT_FILES / name} cannot be read: {error.strerror}.") from error
    return True


def kept_files_of(checkpoint: Path, mode: str, base_model: Any, params: Mapping[str, Any],
                  only: Container[tuple[str, ...]] | None = None) -> list[Override]:
    """Returns config overrides that make a model use the copies of its files.

    Args:
      checkpoint: folder of the checkpoint, which contains the assets; copies of other files are beside it, or one
        level up for best and averaged models.
      mode: ``train`` or one of ``MODES``.
      base_model: the model's class, or its name.
      params: the model's parameters in that mode, as given in the config.
      only: the parameters, by path in the config, whose copies are used; None for those of all files, also of files
        that a data layer names without declaring them.

    Raises:
      CheckpointError: the checkpoint is damaged, or a copy beside it is a symbolic link or cannot be read.
    """
    assets = verified_assets(checkpoint)
    files = model_files(base_model, params)
    declared = {_asset_name(file) for file in files}
    of_data = {name: str(path) for name, path in assets.items() if only is None and name not in declared}
    moved: dict[tuple[str, ...], str] = {}
    for file in files:
        if file.value is None or (only is not None and file.path not in only):
            continue
        copy = _beside(checkpoint, mode, file) or assets.get(_asset_name(file))
        if copy is not None and file.part == _DATA and file.kind == ASSET:
            of_data[_asset_name(file)] = str(copy)
        elif copy is not None:
            moved[file.path] = str(copy)
    # Files that a dict of the data layer names otherwise replace entries of that dict, and so come after it.
    moved = {**_moved_by_data_layer(base_model, params, of_data), **moved}
    return [Override(None, path, value) for path, value in moved.items()]


def _moved_by_data_layer(base_model: Any, params: Mapping[str, Any],
                         paths: Mapping[str, str]) -> dict[tuple[str, ...], Any]:
    """Returns the parameters that make the data layer read a checkpoint's assets, as values by path in the config.

    If the config leaves one of the layer's parameters to the model's parameter of the same name, such as
    ``lm_vocab_file``, the latter is returned, so that a value on the command line, which takes precedence, is noticed.

    Args:
      base_model: the model's class, or its name.
      params: the model's parameters.
      paths: path of each asset, by asset name; the layer may have assets that no parameter declares.
    """
    layer_class = part_class(params.get("data_layer"), "data_layer")
    if not paths or not (isinstance(layer_class, type) and issubclass(layer_class, DataLayer)):
        return {}
    before = params.get(_DATA[0]) or {}
    changed = {key: value for key, value in layer_class.params_with_assets(before, paths).items()
               if key not in before or before[key] is not value}
    model_class = part_class(base_model, "model")
    is_model = isinstance(model_class, type) and issubclass(model_class, Model)
    of_model = model_class.get_optional_params() if is_model else {}
    return {(key,) if before.get(key) is None and key in of_model else (*_DATA, key): value
            for key, value in changed.items()}


def model_files(base_model: Any, params: Mapping[str, Any]) -> list[NamedFile]:
    """Returns the files, other than data, that the parameters of a model and its components name.

    Such parameters are declared with ``Param(file="asset")`` or ``Param(file="large")``.
    """
    model_class = part_class(base_model, "model")
    files = named_files_below(model_class, params) if isinstance(model_class, type) else ()
    return [file for file in files if file.kind in (ASSET, LARGE)]


def _asset_name(file: NamedFile) -> str:
    return asset_name(file) if file.part == _DATA else ".".join(file.path)


def _beside_name(mode: str, file: NamedFile) -> str:
    compressed = file.value is not None and file.value.endswith(_COMPRESSED)
    return f"{mode}.{'.'.join(file.path)}" + (_COMPRESSED if compressed else "")


def _beside(checkpoint: Path, mode: str, file: NamedFile) -> Path | None:
    """Returns the path of a file's copy beside the checkpoint, or one level up for best and averaged models."""
    name = _beside_name(mode, file)
    inner = checkpoint.absolute().parent
    folders = (inner, inner.parent) if inner.name in (BEST_MODELS, AVERAGED) else (inner,)
    return next((folder / KEPT_FILES / name for folder in folders if _has_copy(folder, name)), None)
