"""The options of one run, from the command line and the config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from open_seq2seq.config.resolve import ResolvedConfig


@dataclass
class RunOptions:
    """One run of the command line.

    Attributes:
      mode: ``train``, ``eval``, ``train_eval``, ``infer`` or ``interactive_infer``;
        ``train`` under ``benchmark``.
      config: the config, merged, overridden and checked for this mode.
      infer_output_file: where inference writes.
      infer_files: what it reads instead of the config's data; empty without ``--infer_files``.
      continue_learning: resume training from the newest checkpoint of the logdir.
      no_dir_check: problems of the logdir are warnings; implied by ``benchmark``.
      benchmark: measure speed; the config was changed for it.
      enable_logs: save output, config, command line and git state; checkpoints go to ``<logdir>/logs``.
      elastic: processes may be lost and may join while training goes on.
      check: build and check everything, then stop before the first step.
      argv: the arguments as they were given.
    """

    mode: str
    config: ResolvedConfig
    infer_output_file: str = "infer-out.txt"
    infer_files: Sequence[str] = ()
    continue_learning: bool = False
    no_dir_check: bool = False
    benchmark: bool = False
    enable_logs: bool = False
    elastic: bool = False
    check: bool = False
    argv: list[str] = field(default_factory=list)

    @property
    def config_file(self) -> str:
        """Path of the config file."""
        return self.config.config_file.path
