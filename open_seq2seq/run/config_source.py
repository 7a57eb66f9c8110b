"""Finds the config of a run: a file that the user names, or that of a checkpoint in the log directory."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from open_seq2seq.checkpoints import first_whole
from open_seq2seq.checkpoints.choosing import offered
from open_seq2seq.checkpoints.files import CONFIG, STATE
from open_seq2seq.checkpoints.folders import (
    AVERAGED,
    BEST_MODELS,
    LOGS,
    checkpoint_folder,
    list_checkpoints,
)
from open_seq2seq.checkpoints.kept_files import kept_files_of, model_files, part_class
from open_seq2seq.config.loader import ConfigFile, load_config
from open_seq2seq.config.merge import copy_nested
from open_seq2seq.config.overrides import Override
from open_seq2seq.config.resolve import ResolvedConfig
from open_seq2seq.inference.from_logdir import (
    check_verb,
    config_of_logdir,
    data_layer_of,
    given_logdir,
    overrides_for,
    whole,
)
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.given_files import STANDARD_INPUT, is_live_input
from open_seq2seq.utils.launcher import launched_as

_FINISHED = ("eval", "infer", "interactive_infer")  # the modes that use a trained model
_TRAIN = "train"


class Source(NamedTuple):
    """The config of a run.

    Attributes:
      file: the config.
      overrides: the values to apply to the config, in this order: those that make the model use the files kept by a
        checkpoint, those of the command line, and those that make the model read the files of ``--infer_files``.
      mode: the mode of the run; ``interactive_infer`` instead of ``infer`` if lines of standard input are processed as
        they arrive.
      moved_files: overrides that make a resumed run read copies of files that no longer exist. They are not part of the
        config that the run stores.
    """

    file: ConfigFile
    overrides: list[Override]
    mode: str
    moved_files: Sequence[Override] = ()


def config_of_run(config: ConfigFile | str | None, mode: str, overrides: Sequence[Override],
                  infer_files: Sequence[str] = (), trust_code: bool = False, resumes: bool = False,
                  verb: str | None = None) -> Source:
    """Returns the config of a run and the overrides to apply to it.

    Without a config file, the config is that of a checkpoint in the log directory. The files that the model needs, such
    as vocabularies, are found as follows:

    * In evaluation and inference, if the config is that of a checkpoint (whether it was named or found), the model uses
      the copies of its files that the checkpoint has kept.
    * In all other cases, the model uses the files that the config names. If such a file does not exist, evaluation,
      inference and resumed training use the checkpoint's copy.

    Args:
      config: the config, or the path of its file, that the user gave; or None.
      mode: the mode of the run.
      overrides: values of the command line.
      infer_files: the files of ``--infer_files``.
      trust_code: whether a YAML config in a log directory may name code from outside the package.
      resumes: whether training continues from a checkpoint.
      verb: what the model has to do; None for anything.

    Raises:
      UserError: there is no config; or the input files are missing, or unsuitable for the data layer.
      CheckpointError: no checkpoint in the log directory is intact.
    """
    values = list(overrides)
    if mode not in _FINISHED:
        return _config_of_training(config, mode, values, trust_code, resumes)
    if config is None:
        file, moved = config_of_logdir(mode, values, trust_code)
    else:
        file = _loaded(config, trust_code)
        moved = _with_files_of_checkpoint(file, mode, values)
    if verb is not None:
        with file.in_use():
            check_verb(part_class(file.base_model, "model"), verb, given_logdir(mode, values) or file.path)
    values = [*moved, *values]
    if not infer_files:
        return Source(file, values, mode)
    if _has_live_lines(infer_files, file, values):
        file.sections.pop("interactive_infer_params", None)  # so that the run uses infer_params
        return Source(file, values, "interactive_infer")
    return Source(file, [*values, *overrides_for(infer_files, file, values)], mode)


def _loaded(config: ConfigFile | str, trust_code: bool) -> ConfigFile:
    if isinstance(config, str):
        return load_config(config, True if trust_code else None)
    return dataclasses.replace(config, sections=copy_nested(config.sections))  # later steps change the sections


def _config_of_training(config: ConfigFile | str | None, mode: str, overrides: list[Override], trust_code: bool,
                        resumes: bool) -> Source:
    if config is not None:
        file = _loaded(config, trust_code)
        return Source(file, overrides, mode, _moved_files(file, overrides) if resumes else ())
    logdir = given_logdir(_TRAIN, overrides)
    if not resumes or not logdir:
        hint = f" To resume the run in {logdir}, give --continue_learning." if logdir else ""
        raise UserError(f"The following arguments are required: --config_file.{hint} See --help.")
    checkpoint = _newest(logdir)
    if checkpoint is None:
        raise UserError(f"--continue_learning was given, but there is no checkpoint in {logdir}: give the logdir of "
                        "the run to resume or, if it was stopped before its first checkpoint, its --config_file.")
    file = load_config(checkpoint / CONFIG, trust_code)
    return Source(file, overrides, mode, _moved_files(file, overrides))


def _newest(logdir: str) -> Path | None:
    """Returns the newest intact checkpoint of a log directory; None if it has no checkpoints."""
    checkpoints = list_checkpoints(checkpoint_folder(Path(logdir).expanduser()))
    return first_whole(checkpoints, whole) if checkpoints else None


def _moved_files(file: ConfigFile, overrides: list[Override]) -> list[Override]:
    """Returns overrides that replace missing files of a resumed run by copies of those in its newest checkpoint.

    The copies are temporary, because the run will eventually remove the checkpoint.
    """
    params = ResolvedConfig(file, _TRAIN, overrides).merge(_TRAIN)[0]
    with file.in_use():
        gone = _missing_files(file, params)
        logdir = params.get("logdir")
        checkpoint = _newest(logdir) if gone and isinstance(logdir, str) and logdir else None
        if checkpoint is None:
            return []  # later checks explain what is missing
        moved = kept_files_of(checkpoint, _TRAIN, file.base_model, params, lambda named: named.path in gone)
    return [_with_copy(override) for override in moved]


def _with_copy(override: Override) -> Override:
    path = override.value
    if not (isinstance(path, str) and os.path.isfile(path)):
        return override
    copy = os.path.join(tempfile.mkdtemp(dir=disk.process_folder()), os.path.basename(path))
    disk.copy_new(path, copy)
    deco_print(f"A file that the config names does not exist and is taken from the checkpoint: {path}")
    return dataclasses.replace(override, value=copy)


def _has_live_lines(infer_files: Sequence[str], file: ConfigFile, overrides: list[Override]) -> bool:
    """Returns whether inference processes lines of standard input as they arrive, in one process."""
    if list(infer_files) != [STANDARD_INPUT] or not is_live_input() or launched_as()[1] > 1:
        return False
    layer_class = data_layer_of(file, overrides)
    return layer_class is not None and layer_class.reads_lines


def _with_files_of_checkpoint(file: ConfigFile, mode: str, overrides: list[Override]) -> list[Override]:
    """Returns overrides that make a model use the checkpoint's copies of files that do not exist.

    If the config is itself that of a checkpoint, the model uses the copies of all files.
    """
    beside = _checkpoint_of(file.path)
    moved: list[Override] = []
    params = ResolvedConfig(file, mode, overrides).merge(mode)[0]
    logdir = params.get("logdir")
    if beside is not None and not os.path.isdir(os.path.expanduser(str(logdir))):
        moved = [Override(None, ("logdir",), str(beside))]  # the logdir was moved, together with this config
        logdir = str(beside)
    with file.in_use():
        gone = _missing_files(file, params)
        if not isinstance(logdir, str) or not logdir or (beside is None and not gone):
            return moved
        paths = offered(checkpoint_folder(Path(logdir).expanduser()), params).paths
        if not paths:
            return moved
        checkpoint = first_whole(paths, whole)
        if beside is not None:
            return moved + kept_files_of(checkpoint, mode, file.base_model, params)
        moved_here = kept_files_of(checkpoint, mode, file.base_model, params, lambda named: named.path in gone)
    if moved_here:
        deco_print(f"Of the files that the config names, these do not exist and are taken from {checkpoint}: "
                   + ", ".join("/".join(override.keys) for override in moved_here))
    return moved_here


def _missing_files(file: ConfigFile, params: Mapping[str, Any]) -> set[tuple[str, ...]]:
    """Returns the parameters, by path in the config, that name files that do not exist."""
    return {named.path for named in model_files(file.base_model, params)
            if named.value is not None and not os.path.lexists(os.path.expanduser(named.value))}


def _checkpoint_of(config_file: str) -> Path | None:
    """Returns the logdir of the checkpoint that a config file belongs to; None if it belongs to none."""
    folder = Path(config_file).parent
    if not config_file or not (folder / STATE).is_file():
        return None
    logdir = folder.parent
    if logdir.name in (BEST_MODELS, AVERAGED):
        logdir = logdir.parent
    return logdir.parent if logdir.name == LOGS else logdir
