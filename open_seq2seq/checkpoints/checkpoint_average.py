"""Averages the weights of several checkpoints from the end of a run.

See Polyak and Juditsky 1992, https://doi.org/10.1137/0330046.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from open_seq2seq.checkpoints.reading import Checkpoint, load_checkpoint
from open_seq2seq.checkpoints.state import AVERAGE, METRICS, RATES, state_if_intact
from open_seq2seq.checkpoints.writing import Snapshot
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError


def of_one_stretch(paths: Sequence[Path], has_jump: Callable[[int, int], bool] = lambda first, last: False) -> int:
    """Returns how many of the newest checkpoints share a learning-rate schedule that has no jump between them.

    The average of weights from before and after a jump, or under different schedules, is often worse than the newest
    weights.

    Args:
      paths: folders of regular checkpoints, the newest first.
      has_jump: returns whether the learning-rate schedule has a jump between two steps.
    """
    for count, (newer, older) in enumerate(itertools.pairwise(map(state_if_intact, paths)), 1):
        if newer is None or older is None:  # damaged, which ``average_checkpoints`` reports
            continue
        if newer.get(RATES) != older.get(RATES) or has_jump(older["step"], newer["step"]):
            return count
    return len(paths)


def average_checkpoints(paths: Sequence[str | Path]) -> Snapshot:
    """Returns a snapshot with the means of the weights and of their moving averages, if any.

    Everything else comes from the last usable checkpoint, except that the state has no metrics, and an additional list
    ``averaged`` with the names of the checkpoints used. Checkpoints that are damaged or have non-finite weights are
    reported and left out.

    Args:
      paths: checkpoint folders, oldest first, which contribute equally.

    Raises:
      CheckpointError: there are no checkpoints, none is intact, or their variables differ.
    """
    if not paths:
        raise CheckpointError("There are no checkpoints to average.")
    sums: dict[str, np.ndarray] = {}
    used: list[Path] = []
    for path in map(Path, paths):
        try:
            checkpoint = load_checkpoint(path)
            checkpoint.check_finite()
        except CheckpointError as error:
            deco_print(f"WARNING: {error} It is left out of the average.")
            continue
        last: Checkpoint = checkpoint
        values = {**last.weights,
                  **{name: value for name, value in last.optimizer.items() if name.startswith(AVERAGE)}}
        shapes = {name: value.shape for name, value in values.items()}
        if sums and shapes != {name: value.shape for name, value in sums.items()}:
            raise CheckpointError(f"The checkpoints {used[0]} and {path} have different variables: average only "
                                  "checkpoints of the same run.")
        for name, value in values.items():
            sums[name] = sums.get(name, 0.0) + value.astype(np.float64)
        used.append(path)
    if not used:
        raise CheckpointError("Nothing can be averaged, because none of the checkpoints can be used; see above.")
    # The sums are in FP64, so that the mean of equal weights is exact. Integers, such as counters, are not averaged.
    means = {name: np.asarray(sums[name] / len(used), value.dtype) if value.dtype.kind == "f" else value
             for name, value in values.items()}
    weights = {name: means[name] for name in last.weights}
    optimizer = {name: means.get(name, value) if name.startswith(AVERAGE) else value
                 for name, value in last.optimizer.items()}
    state = {**{name: value for name, value in last.state.items() if name != METRICS},
             "averaged": [path.name for path in used]}
    assets: dict[str, bytes | str] = {name: str(path) for name, path in sorted(last.assets.items())}
    return Snapshot(weights, optimizer, state, last.config_yaml, assets)
