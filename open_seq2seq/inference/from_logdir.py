"""Finds the config with which a logdir's model is evaluated or used, and overrides that name the files to read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from open_seq2seq.checkpoints import first_whole, verified_assets
from open_seq2seq.checkpoints.choosing import offered
from open_seq2seq.checkpoints.files import CONFIG
from open_seq2seq.checkpoints.folders import checkpoint_folder, find_checkpoints
from open_seq2seq.checkpoints.kept_files import kept_files_of, part_class
from open_seq2seq.config.loader import ConfigFile, load_config
from open_seq2seq.config.merge import merge_params
from open_seq2seq.config.overrides import Override
from open_seq2seq.config.resolve import ResolvedConfig
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.utils.errors import UserError

_SECTION, _DATA = "infer_params", "data_layer_params"
# The sections that a mode uses besides base_params.
_SECTIONS = {"train": ("train_params",), "eval": ("eval_params",), "infer": (_SECTION,),
             "interactive_infer": ("interactive_infer_params", _SECTION)}


def config_of_logdir(mode: str, overrides: Sequence[Override],
                     trust_code: bool = False) -> tuple[ConfigFile, list[Override]]:
    """Returns the config of a logdir's checkpoint, and overrides that make its model use the files kept in the logdir.

    Args:
      mode: ``eval``, ``infer`` or ``interactive_infer``.
      overrides: values from the command line, including the logdir.
      trust_code: whether the config may name code from outside the package.

    Raises:
      UserError: no logdir is given, or it has no checkpoint.
      CheckpointError: no checkpoint in the logdir is intact.
      ConfigError: the config cannot be read.
    """
    restore_best = _given(mode, overrides, "restore_best_checkpoint") is True
    folder, checkpoints = _checkpoints(given_logdir(mode, overrides), restore_best)
    checkpoint = first_whole(checkpoints, whole)
    file = load_config(checkpoint / CONFIG, trusted=trust_code)
    wanted = offered(folder, _merged(file, mode, overrides)).paths
    if wanted != checkpoints:  # the config just read selects another checkpoint, such as the best or averaged one
        checkpoint = first_whole(wanted, whole)
        file = load_config(checkpoint / CONFIG, trusted=trust_code)
    file.checkpoint = str(checkpoint)
    _add_data_layer(file, mode)
    with file.in_use():
        return file, kept_files_of(checkpoint, mode, file.base_model, _merged(file, mode, overrides))


_COMMANDS = {"synthesize": "speak"}  # method of TrainedModel → verb of the command line, if it is another word


def check_verb(model: Any, verb: str, logdir: str) -> None:
    """Raises UserError if a model, or a class of models, does something else than a verb of the command line.

    A class whose verb depends on its data is accepted.
    """
    does = getattr(model, "verb", None)
    if isinstance(does, property):
        return
    does = _COMMANDS.get(does, does)
    if does == verb:
        return
    name = getattr(model, "__name__", type(model).__name__)
    use = f"use {does} instead" if does else "use --mode=infer"
    raise UserError(f"The model of {logdir}, {name}, does not {verb}: {use}.")


def overrides_for(files: Sequence[str], file: ConfigFile, overrides: Sequence[Override]) -> list[Override]:
    """Returns overrides, chosen by the data layer, that make inference read the files of ``--infer_files``.

    Args:
      files: file names as given on the command line.
      file: the config.
      overrides: values from the command line, which may name another data layer.

    Raises:
      UserError: the data layer accepts no files on the command line, or not these files.
    """
    layer_class = data_layer_of(file, overrides)
    if layer_class is None:
        return []  # ``describe_model`` reports the error
    changed = layer_class.params_for_files(files)
    return [Override(_SECTION, (_DATA, name), value) for name, value in changed.items()]


def data_layer_of(file: ConfigFile, overrides: Sequence[Override]) -> type[DataLayer] | None:
    """Returns the class of the data layer that inference uses; None if the config names none that exists."""
    named = _merged(file, "infer", overrides).get("data_layer")
    with file.in_use():
        layer = part_class(named, "data_layer")
    return layer if isinstance(layer, type) and issubclass(layer, DataLayer) else None


def _merged(file: ConfigFile, mode: str, overrides: Sequence[Override]) -> dict[str, Any]:
    return ResolvedConfig(file, mode, list(overrides)).merge(mode)[0]


def _add_data_layer(file: ConfigFile, mode: str) -> None:
    """Gives inference the data layer of evaluation or training, if the config names none for inference."""
    sections = file.sections
    if mode == "eval" or any("data_layer" in sections.get(name, {}) for name in ("base_params", *_SECTIONS[mode])):
        return
    for name in ("eval_params", "train_params"):
        if "data_layer" in (section := sections.get(name, {})):
            layer = {key: section[key] for key in ("data_layer", _DATA) if key in section}
            sections[_SECTION] = merge_params(layer, sections.get(_SECTION, {}), _SECTION)[0]
            return


def given_logdir(mode: str, overrides: Sequence[Override]) -> str | None:
    """Returns the log directory given on the command line, or None."""
    value = _given(mode, overrides, "logdir")
    return None if value is None else str(value)


def _given(mode: str, overrides: Sequence[Override], name: str) -> Any:
    """Returns the value of a model's parameter on the command line, or None."""
    values = [override.value for override in overrides
              if override.keys == (name,) and override.section in (None, *_SECTIONS[mode])]
    return values[-1] if values else None


def _checkpoints(logdir: str | None, restore_best: bool) -> tuple[Path, list[Path]]:
    """Returns the folder of a logdir's checkpoints and the checkpoints, the preferred one first."""
    if not logdir:
        raise UserError("There is neither a config nor a trained model: give --config_file=FILE, or "
                        "--logdir=FOLDER with the logdir of a trained model.")
    root = Path(logdir).expanduser()
    folder = checkpoint_folder(root)
    checkpoints = find_checkpoints(folder, restore_best)
    if not checkpoints:
        state = "has no checkpoint" if root.exists() else "does not exist"
        raise UserError(f"The folder {logdir} {state}: give the logdir that training wrote to.")
    return folder, checkpoints


def whole(path: Path) -> Path:
    """Returns the path of a checkpoint after verifying all of its files; for ``first_whole``."""
    verified_assets(path)
    return path
