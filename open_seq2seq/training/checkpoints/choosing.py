"""Chooses which checkpoint of a log directory is read: the newest, the best, or the averaged one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from open_seq2seq.training.checkpoints import Checkpoint, check_resumable, load_first_whole, read_state
from open_seq2seq.training.checkpoints.folders import AVERAGED, BEST_MODELS, find_checkpoints, list_checkpoints
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError


def newest(folder: Path) -> Checkpoint:
    """Reads the newest intact checkpoint of a folder, for resuming training.

    Raises:
      CheckpointError: no checkpoint is intact, or the newest intact one cannot be resumed from.
    """
    checkpoint = load_first_whole(list_checkpoints(folder))
    check_resumable(checkpoint.path, checkpoint.state)
    checkpoint.check_finite(optimizer=True)
    return checkpoint


def offered(folder: Path, params: Mapping[str, Any]) -> tuple[str, list[Path]]:
    """Returns (kind, folders) of the checkpoints that evaluation and inference may use, the preferred one first.

    Args:
      folder: folder of the checkpoints, or a checkpoint itself.
      params: parameters of the model, with or without defaults.
    """
    best = list_checkpoints(folder / BEST_MODELS, best=True) if params.get("restore_best_checkpoint") else []
    if best:
        return "best", best
    averaged = list_checkpoints(folder / AVERAGED) if params.get("average_checkpoints") else []
    return ("averaged", averaged) if averaged else ("latest", find_checkpoints(folder))


def written_last(folder: Path) -> Mapping[str, Any] | None:
    """Returns the state of the most recently written checkpoint of any run, or None if there is none."""
    for path in sorted(list_checkpoints(folder), key=lambda path: path.stat().st_mtime, reverse=True):
        with contextlib.suppress(CheckpointError):
            return read_state(path)
    return None


def for_inference(folder: Path | None, params: Mapping[str, Any], of_config: str | None = None) -> Checkpoint:
    """Reads the checkpoint that evaluation and inference use: the best, the averaged, or the newest one.

    Args:
      folder: folder of the checkpoints; None if the log directory has none.
      params: parameters of the model.
      of_config: path of the checkpoint that the config was read from, if any; then only this checkpoint is read.

    Raises:
      CheckpointError: there is no intact checkpoint, or its weights are not finite.
    """
    if folder is None:
        raise CheckpointError("There is no checkpoint: give the logdir of a trained model with --logdir.")
    kind, paths = offered(folder, params)
    checkpoint = load_first_whole(paths if of_config is None else [Path(of_config)])
    checkpoint.check_finite()
    deco_print(f"Restoring from the {kind} checkpoint: {checkpoint.path}")
    return checkpoint
