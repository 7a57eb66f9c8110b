"""Chooses which checkpoint of a log directory is read: the newest, the best, or the averaged one."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from open_seq2seq.models.model import BEST_METRIC, BEST_METRIC_MODE
from open_seq2seq.training.checkpoints import Checkpoint, check_resumable, load_first_whole, read_state
from open_seq2seq.training.checkpoints.files import METRICS, RUN
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


class Offer(NamedTuple):
    """The checkpoints that evaluation and inference may use.

    Attributes:
      kind: ``latest``, ``best`` or ``averaged``.
      paths: folders of the checkpoints of this kind, the preferred one first.
      reason: why this kind is preferred; "" if there was no choice.
    """

    kind: str
    paths: list[Path]
    reason: str = ""


def offered(folder: Path, params: Mapping[str, Any]) -> Offer:
    """Returns the checkpoints that evaluation and inference may use.

    With ``restore_best_checkpoint``, these are the best ones. Otherwise, the newest, the best and, with
    ``average_checkpoints``, the averaged checkpoint of the same run are compared by ``best_metric``. If the newest or
    the averaged checkpoint has not been evaluated, the averaged one is used or, without one, the newest.

    Args:
      folder: folder of the checkpoints, or a checkpoint itself.
      params: parameters of the model, with or without defaults.
    """
    best = list_checkpoints(folder / BEST_MODELS, best=True)
    if params.get("restore_best_checkpoint") and best:
        return Offer("best", best)
    latest = find_checkpoints(folder)
    if latest and latest[0].parent != folder:
        return Offer("latest", latest)  # the user named a checkpoint
    averaged = list_checkpoints(folder / AVERAGED) if params.get("average_checkpoints") else []
    kinds = {kind: paths for kind, paths in (("averaged", averaged), ("latest", latest), ("best", best)) if paths}
    if not latest or not (averaged or best):
        return Offer("averaged", averaged) if averaged else Offer("latest", latest)
    return _by_metric(kinds, str(params.get("best_metric", BEST_METRIC)),
                      params.get("best_metric_mode", BEST_METRIC_MODE) == "max")


def _by_metric(kinds: dict[str, list[Path]], metric: str, largest: bool) -> Offer:
    run = _state(kinds["latest"][0]).get(RUN, "")
    values = {}
    for kind, paths in kinds.items():
        state = _state(paths[0])
        value = state.get(METRICS, {}).get(metric, math.nan)
        if not math.isnan(value) and state.get(RUN, "") == run:
            values[kind] = float(value)
    needed = kinds.keys() - {"best"}
    if not needed <= values.keys():
        usual = "averaged" if "averaged" in kinds else "latest"
        unknown = " and ".join(sorted(needed - values.keys()))
        return Offer(usual, kinds[usual], f"{metric} of the {unknown} checkpoint is unknown")
    # Of equal values the first counts, so that the newest is preferred to the best if they are the same.
    order = [kind for kind in ("latest", "averaged", "best") if kind in values]
    chosen = (max if largest else min)(order, key=lambda kind: values[kind])
    return Offer(chosen, kinds[chosen], f"{metric} is " + ", ".join(f"{values[kind]:.4f} ({kind})" for kind in order))


def _state(path: Path) -> Mapping[str, Any]:
    with contextlib.suppress(CheckpointError):
        return read_state(path)
    return {}


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
    offer = offered(folder, params)
    checkpoint = load_first_whole(offer.paths if of_config is None else [Path(of_config)])
    checkpoint.check_finite()
    deco_print(f"Restoring from the {offer.kind} checkpoint: {checkpoint.path}")
    if offer.reason:
        deco_print(f"Of the newest, the best and the averaged checkpoint, this one is used because {offer.reason}.",
                   offset=1)
    return checkpoint
