"""Inference from a log directory: the config of a checkpoint, the files kept there, and those of ``--infer_files``."""

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
    """Returns the config of a logdir's checkpoint, and the values that make its model use the files kept there.

    Args:
      mode: ``infer`` or ``interactive_infer``.
      overrides: values of the command line, the logdir among them.
      trust_code: whether the config may name code from outside the package.

    Raises:
      UserError: there is no logdir, or no checkpoint in it.
      CheckpointError: no checkpoint in it is whole.
      ConfigError: a config that cannot be read.
    """
    folder, found = _checkpoints(_given(overrides, "logdir"), str(_given(overrides, "restore_best_checkpoint")))
    checkpoint = first_whole(found, _whole)
    file = load_config(checkpoint / CONFIG, trusted=trust_code)
    _, wanted = offered(folder, _merged(file, mode, overrides))
    if wanted != found:  # as this config says: the best ones, or the average
        checkpoint = first_whole(wanted, _whole)
        file = load_config(checkpoint / CONFIG, trusted=trust_code)
    file.checkpoint = str(checkpoint)
    with file.in_use():
        return file, kept_files_of(checkpoint, mode, file.base_model, _merged(file, mode, overrides))


def overrides_for(files: Sequence[str], file: ConfigFile, overrides: Sequence[Override]) -> list[Override]:
    """Returns the values that make inference read the files of ``--infer_files``, as the data layer chooses them.

    Args:
      files: as given.
      file: the config.
      overrides: values of the command line, which may name another data layer.

    Raises:
      UserError: the data layer takes no files, or not these ones.
    """
    named = _merged(file, "infer", overrides).get("data_layer")
    with file.in_use():
        layer_class = part_class(named, "data_layer")
    if not (isinstance(layer_class, type) and issubclass(layer_class, DataLayer)):
        return []  # reported where the model is described
    changed = layer_class.params_for_files(files)
    return [Override(_SECTION, (_DATA, name), repr(value)) for name, value in changed.items()]


def _merged(file: ConfigFile, mode: str, overrides: Sequence[Override]) -> dict[str, Any]:
    return ResolvedConfig(file, mode, list(overrides)).merge(mode)[0]


def _given(overrides: Sequence[Override], name: str) -> str | None:
    """Returns the value that the command line gives a parameter of the model, or None."""
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
        raise UserError(f"--logdir is {logdir}, which has no checkpoint: name the folder that training wrote to.")
    return folder, found


def _whole(path: Path) -> Path:
    verified_assets(path)
    return path
