"""The options of a run, from the command line and the config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from open_seq2seq.config.overrides import Override
from open_seq2seq.config.resolve import ResolvedConfig


@dataclass
class RunOptions:
    """The options of one run of the command.

    Attributes:
      mode: ``train``, ``eval``, ``train_eval``, ``infer`` or ``interactive_infer``; always ``train`` if ``benchmark``.
      config: the config, merged, overridden and checked for this mode.
      infer_output_file: path of the file that inference writes.
      specs: descriptions of the models that the mode needs (``models.builder.ModelSpec``), by section.
      verb: what the model has to do, such as ``translate``; None for anything. See ``Model.verb``.
      infer_files: files that inference reads instead of the config's data; empty without ``--infer_files``. If it is
        not empty in the mode ``interactive_infer``, the only file is ``-``: lines of stdin, processed as they arrive.
      continue_learning: whether to resume training from the newest checkpoint in the logdir.
      no_dir_check: whether problems of the logdir, and a config that does not fit its checkpoint, only cause warnings
        instead of errors; implied by ``benchmark``.
      benchmark: whether to measure training speed; ``config`` is then adapted to it.
      enable_logs: whether to save output, config, command line and git state in the logdir, and to put checkpoints into
        ``<logdir>/logs``.
      elastic: whether processes may leave and join during training.
      check: whether to build and check everything, make some updates if the mode trains, and stop.
      verbose: whether to print the config and all variables.
      argv: the command-line arguments as given.
      moved_files: overrides that make a resumed run read copies of files that no longer exist; they are not part of
        ``config``, which the run saves.
    """

    mode: str
    config: ResolvedConfig
    infer_output_file: str = "infer-out.txt"
    specs: Mapping[str, Any] = field(default_factory=dict)
    verb: str | None = None
    infer_files: Sequence[str] = ()
    continue_learning: bool = False
    no_dir_check: bool = False
    benchmark: bool = False
    enable_logs: bool = False
    elastic: bool = False
    check: bool = False
    verbose: bool = False
    argv: list[str] = field(default_factory=list)
    moved_files: Sequence[Override] = ()

    @property
    def config_file(self) -> str:
        """Path of the config file."""
        return self.config.config_file.path
