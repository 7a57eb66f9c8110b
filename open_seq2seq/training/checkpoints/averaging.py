"""The mean of several checkpoints' weights (Polyak averaging over the end of a run)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from open_seq2seq.training.checkpoints.files import AVERAGE
from open_seq2seq.training.checkpoints.reading import Checkpoint, load_checkpoint
from open_seq2seq.training.checkpoints.writing import Snapshot
from open_seq2seq.utils.errors import CheckpointError


def average_checkpoints(paths: Sequence[str | Path]) -> Snapshot:
    """Returns a snapshot with the mean weights; everything else is the last checkpoint's.

    Where the run kept a moving average of its weights, the mean of those is taken as well.

    Args:
      paths: checkpoint folders, oldest first; all weigh the same.

    Raises:
      CheckpointError: there are none, one is damaged, or their variables differ.
    """
    if not paths:
        raise CheckpointError("There are no checkpoints to average.")
    sums: dict[str, np.ndarray] = {}
    for path in paths:
        last: Checkpoint = load_checkpoint(path)
        values = _to_average(last)
        shapes = {name: value.shape for name, value in values.items()}
        if sums and shapes != {name: value.shape for name, value in sums.items()}:
            raise CheckpointError(f"The checkpoints {paths[0]} and {path} hold different variables: average "
                                  "checkpoints of one run.")
        for name, value in values.items():
            sums[name] = sums.get(name, 0.0) + value.astype(np.float64)
    # Summed in FP64: the mean of equal weights is exactly that weight. Counters have no mean.
    means = {name: np.asarray(sums[name] / len(paths), value.dtype) if value.dtype.kind == "f" else value
             for name, value in values.items()}
    weights = {name: means[name] for name in last.weights}
    optimizer = {name: means.get(name, value) if name.startswith(AVERAGE) else value
                 for name, value in last.optimizer.items()}
    state = {**last.state, "averaged": [Path(path).name for path in paths]}
    assets = {name: str(path) for name, path in sorted(last.assets.items())}
    return Snapshot(weights, optimizer, state, last.config_yaml, assets)


def _to_average(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    return {**checkpoint.weights,
            **{name: value for name, value in checkpoint.optimizer.items() if name.startswith(AVERAGE)}}
