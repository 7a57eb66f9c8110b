"""Prepares inference from a log directory: a checkpoint's config, the files kept there, and ``--infer_files``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from open_seq2seq.config.loader import ConfigFile, load_config
from open_seq2seq.config.overrides import Override
from open_seq2seq.config.resolve import ResolvedConfig
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.training.checkpoints import first_whole, verified_assets
from open_seq2seq.training.checkpoints.choosing import offered
from open_seq2seq.training.checkpoints.files import CONFIG
from open_seq2seq.training.checkpoints.folders import find_checkpoints
from open_seq2seq.training.checkpoints.kept_files import kept_files_of, part_class
from open_seq2seq.utils.errors import UserError

_SECTION, _DATA = "infer_params", "data_layer_params"


def config_of_logdir(mode: str, overrides: Sequence[Override],
                     trust_code: bool = False) -> tuple[ConfigFile, list[Override]]:
    """Returns the config of a logdir's checkpoint, and overrides that make its model use the files kept in the logdir.

    Args:
      mode: ``infer`` or ``interactive_infer``.
      overrides: values from the command line, including the logdir.
      trust_code: whether the config may name code from outside the package.

    Raises:
      UserError: no logdir is given, or it has no checkpoint.
      CheckpointError: no checkpoint in the logdir is intact.
      ConfigError: the config cannot be read.
    """
    folder, found = _checkpoints(_given(overrides, "logdir"), str(_given(overrides, "restore_best_checkpoint")))
    checkpoint = first_whole(found, _whole)
    file = load_config(checkpoint / CONFIG, trusted=trust_code)
    _, wanted = offered(folder, _merged(file, mode, overrides))
    if wanted != found:  # this config selects best or averaged checkpoints, but comes from another checkpoint
        checkpoint = first_whole(wanted, _whole)
        file = load_config(checkpoint / CONFIG, trusted=trust_code)
    file.checkpoint = str(checkpoint)
    with file.in_use():
        return file, kept_files_of(checkpoint, mode, file.base_model, _merged(file, mode, overrides))


def overrides_for(files: Sequence[str], file: ConfigFile, overrides: Sequence[Override]) -> list[Override]:
    """Returns overrides, chosen by the data layer, that make inference read the files of ``--infer_files``.

    Args:
      files: file names as given on the command line.
      file: the config.
      overrides: values from the command line, which may name another data layer.

    Raises:
      UserError: the data layer accepts no files on the command line, or not these files.
    """
    named = _merged(file, "infer", overrides).get("data_layer")
    with file.in_use():
        layer_class = part_class(named, "data_layer")
    if not (isinstance(layer_class, type) and issubclass(layer_class, DataLayer)):
        return []  # the error is reported when the model is described
    changed = layer_class.params_for_files(files)
    return [Override(_SECTION, (_DATA, name), repr(value)) for name, value in changed.items()]


def _merged(file: ConfigFile, mode: str, overrides: Sequence[Override]) -> dict[str, Any]:
    return ResolvedConfig(file, mode, list(overrides)).merge(mode)[0]


def _given(overrides: Sequence[Override], name: str) -> str | None:
    """Returns the value of a model's parameter on the command line, or None."""
    found = [override.text for override in overrides
             if override.keys == (name,) and override.section in (None, _SECTION)]
    return found[-1] if found else None


def _checkpoints(logdir: str | None, restore_best: str) -> tuple[Path, list[Path]]:
    """Returns a logdir and its checkpoints, the preferred one first."""
    if not logdir:
        raise UserError("--infer_files needs a trained model: give --logdir=FOLDER, or --config_file=FILE.")
    folder = Path(logdir).expanduser()
    found = find_checkpoints(folder, restore_best.lower() == "true")
    if not found:
        raise UserError(f"--logdir={logdir} has no checkpoint: give the folder that training wrote to.")
    return folder, found


def _whole(path: Path) -> Path:
    verified_assets(path)
    return path
