"""Finds the config of a run: a file that the user names, or that of a checkpoint in the log directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from open_seq2seq.config.files import NamedFile
from open_seq2seq.config.loader import ConfigFile, load_config
from open_seq2seq.config.overrides import Override
from open_seq2seq.config.resolve import ResolvedConfig
from open_seq2seq.training.checkpoints import first_whole
from open_seq2seq.training.checkpoints.choosing import offered
from open_seq2seq.training.checkpoints.files import STATE
from open_seq2seq.training.checkpoints.folders import AVERAGED, BEST_MODELS, LOGS, checkpoint_folder
from open_seq2seq.training.checkpoints.kept_files import kept_files_of, model_files
from open_seq2seq.training.inference.from_logdir import (
    config_of_logdir,
    data_layer_of,
    overrides_for,
    whole,
)
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.given_files import STANDARD_INPUT, is_live_input
from open_seq2seq.utils.launcher import launched_as

_FINISHED = ("eval", "infer", "interactive_infer")


class Source(NamedTuple):
    """The config of a run.

    Attributes:
      file: the config.
      overrides: values of the command line, preceded by those that make the model use a checkpoint's own files.
      mode: the mode of the run; ``interactive_infer`` instead of ``infer`` if lines of standard input are processed as
        they arrive.
    """

    file: ConfigFile
    overrides: list[Override]
    mode: str


def config_of_run(config_file: str | None, mode: str, overrides: Sequence[Override], infer_files: Sequence[str] = (),
                  trust_code: bool = False) -> Source:
    """Returns the config of a run and the overrides to apply to it.

    Without a config file, the config is that of a checkpoint in the log directory. Files that the model needs, such as
    vocabularies, are then those of the checkpoint. With a config file they are the files that it names; the
    checkpoint's copy replaces a file that does not exist, or any file if the config is itself that of a checkpoint.

    Args:
      config_file: the file that the user named, or None.
      mode: the mode of the run.
      overrides: values of the command line.
      infer_files: the files of ``--infer_files``.
      trust_code: whether a config in a log directory may name code from outside the package.

    Raises:
      UserError: there is no config; or the input files are missing, or unsuitable for the data layer.
      CheckpointError: no checkpoint in the log directory is intact.
    """
    given = list(overrides)
    if config_file is None:
        if mode not in _FINISHED:
            raise UserError("The following arguments are required: --config_file. See --help.")
        file, kept = config_of_logdir(mode, given, trust_code)
        given = [*kept, *given]
    else:
        file = load_config(config_file, True if trust_code else None)
        if mode in _FINISHED:
            given = [*_with_files_of_checkpoint(file, mode, given), *given]
    if not infer_files:
        return Source(file, given, mode)
    if _has_live_lines(infer_files, file, given):
        file.sections.pop("interactive_infer_params", None)  # the run is one of inference, with infer_params
        return Source(file, given, "interactive_infer")
    return Source(file, [*given, *overrides_for(infer_files, file, given)], mode)


def _has_live_lines(infer_files: Sequence[str], file: ConfigFile, overrides: list[Override]) -> bool:
    """Returns whether inference processes lines of standard input as they arrive, in one process."""
    if list(infer_files) != [STANDARD_INPUT] or not is_live_input() or launched_as()[1] > 1:
        return False
    layer_class = data_layer_of(file, overrides)
    return layer_class is not None and layer_class.reads_lines


def _with_files_of_checkpoint(file: ConfigFile, mode: str, overrides: list[Override]) -> list[Override]:
    """Returns the overrides that make a model use the files in its checkpoint where the config's own are missing."""
    own = _checkpoint_of(file.path)
    found: list[Override] = []
    params = ResolvedConfig(file, mode, overrides).merge(mode)[0]
    logdir = params.get("logdir")
    if own is not None and not os.path.isdir(os.path.expanduser(str(logdir))):
        found = [Override(None, ("logdir",), repr(str(own)))]  # the logdir has been moved, and its config with it
        logdir = str(own)
    if not isinstance(logdir, str) or not logdir:
        return found
    with file.in_use():
        gone = {named.path for named in model_files(file.base_model, params)
                if named.value is not None and (own is not None or not os.path.isfile(named.value))}
        if not gone:
            return found
        paths = offered(checkpoint_folder(Path(logdir).expanduser()), params).paths
        if not paths:
            return found
        checkpoint = first_whole(paths, whole)

        def is_gone(named: NamedFile) -> bool:
            return named.path in gone

        kept = kept_files_of(checkpoint, mode, file.base_model, params, is_gone)
    if kept and own is None:
        deco_print(f"Of the files that the config names, these do not exist and are taken from {checkpoint}: "
                   + ", ".join("/".join(override.keys) for override in kept))
    return found + kept


def _checkpoint_of(config_file: str) -> Path | None:
    """Returns the logdir of the checkpoint that a config file belongs to; None if it belongs to none."""
    folder = Path(config_file).parent
    if not (folder / STATE).is_file():
        return None
    logdir = folder.parent
    if logdir.name in (BEST_MODELS, AVERAGED):
        logdir = logdir.parent
    return logdir.parent if logdir.name == LOGS else logdir
