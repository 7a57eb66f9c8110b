"""Chooses which checkpoint of a log directory is read: the newest, the best, or the averaged one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from open_seq2seq.checkpoints import Checkpoint, check_resumable, first_whole, load_checkpoint
from open_seq2seq.checkpoints.folders import (
    AVERAGED,
    BEST_MODELS,
    best_parts,
    find_checkpoints,
    list_checkpoints,
    step_in_name,
)
from open_seq2seq.checkpoints.state import METRICS, RUN, state_if_intact
from open_seq2seq.models.model_params import BEST_METRIC, BEST_METRIC_MODE
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError


def newest(folder: Path) -> Checkpoint:
    """Reads the newest intact checkpoint of a folder, for resuming training.

    Raises:
      CheckpointError: no checkpoint is intact, or the newest intact one cannot be resumed from, for instance because it
        contains inf or NaN.
    """
    checkpoint = first_whole(list_checkpoints(folder), load_checkpoint)
    check_resumable(checkpoint.path, checkpoint.state)
    checkpoint.check_finite(optimizer=True)
    return checkpoint


class Offer(NamedTuple):
    """The checkpoints that evaluation and inference may use.

    Attributes:
      kind: ``latest``, ``best`` or ``averaged``.
      paths: folders of the checkpoints of this kind, the preferred one first.
      reason: how this kind was chosen, for a message; "" if there was no choice.
    """

    kind: str
    paths: list[Path]
    reason: str = ""


def best_models(folder: Path, params: Mapping[str, Any]) -> list[Path]:
    """Returns the best models in a folder by ``best_metric``, the best first; then those of other metrics.

    Those with equal values, and those of other metrics, are in descending order of steps.
    """
    metric = str(params.get("best_metric", BEST_METRIC))
    sign = 1.0 if params.get("best_metric_mode", BEST_METRIC_MODE) == "max" else -1.0

    def goodness(path: Path) -> float:
        name, rounded, _ = best_parts(path.name) or ("", math.nan, 0)
        if name != metric or math.isnan(rounded):
            return -math.inf
        exact = (state_if_intact(path) or {}).get(METRICS, {}).get(metric)
        return sign * (exact if isinstance(exact, float) and not math.isnan(exact) else rounded)

    # Not all new best models have a later step: a resumed run repeats updates, and may then find a better one.
    return sorted(list_checkpoints(folder / BEST_MODELS, best=True), key=goodness, reverse=True)


def offered(folder: Path, params: Mapping[str, Any]) -> Offer:
    """Returns the checkpoints that evaluation and inference may use.

    With ``restore_best_checkpoint``, these are the best models, if there are any. Otherwise, the newest checkpoint, the
    best model and, with ``average_checkpoints``, the averaged checkpoint of the same run are compared by
    ``best_metric``. If this metric is unknown for the newest or the averaged checkpoint, they are not compared: the
    averaged one is used if the run has not continued since it was written, and the newest one otherwise.

    Args:
      folder: folder of the checkpoints, or a checkpoint itself, which is then the only one.
      params: parameters of the model, with or without defaults.
    """
    best = best_models(folder, params)
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
    """Returns the checkpoints of the kind with the best metric.

    A kind is compared only if its first checkpoint is readable and was written by the same run as the newest one. If
    the metric of the newest or of the averaged checkpoint is unknown, no kind is compared: the averaged checkpoint is
    returned if the run has not continued since it was made, and the newest one otherwise.
    """
    run = next((state.get(RUN, "") for path in kinds["latest"] if (state := state_if_intact(path))), None)
    states = {kind: state for kind, paths in kinds.items()
              if (state := state_if_intact(paths[0]) or {}).get(RUN, "") == run}
    values = {kind: float(state[METRICS][metric]) for kind, state in states.items()
              if not math.isnan(state.get(METRICS, {}).get(metric, math.nan))}
    unknown = [kind for kind in ("latest", "averaged") if kind in states and kind not in values]
    if unknown or "latest" not in states:
        is_last = "averaged" in states and (
            step_in_name(kinds["averaged"][0].name) == step_in_name(kinds["latest"][0].name))
        usual = "averaged" if is_last else "latest"
        reason = f"Not compared with other checkpoints, because no {metric} is known for: {', '.join(unknown)}"
        return Offer(usual, kinds[usual], reason if unknown else "")
    # If values are equal, the first one is chosen, so that the newest checkpoint is preferred to the best one.
    order = [kind for kind in ("latest", "averaged", "best") if kind in values]
    chosen = (max if largest else min)(order, key=lambda kind: values[kind])
    shown = ", ".join(f"{kind} {values[kind]:.4f}" for kind in order)
    return Offer(chosen, kinds[chosen], f"Chosen by {metric} among: {shown}")


def written_last(folder: Path) -> Mapping[str, Any] | None:
    """Returns the state of the most recently written checkpoint of any run, or None if there is none."""
    paths = sorted(list_checkpoints(folder), key=lambda path: path.stat().st_mtime, reverse=True)
    return next(filter(None, map(state_if_intact, paths)), None)


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
    checkpoint = first_whole(offer.paths if of_config is None else [Path(of_config)], load_checkpoint)
    checkpoint.check_finite()
    deco_print(f"Restoring from the {offer.kind} checkpoint: {checkpoint.path}")
    if offer.reason:
        deco_print(offer.reason, offset=1)
    return checkpoint
