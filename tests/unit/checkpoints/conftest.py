"""What the tests of checkpoints share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.checkpoints import Snapshot

MakeSnapshot = Callable[..., Snapshot]


@pytest.fixture
def make_snapshot(tmp_path: Path) -> MakeSnapshot:
    """Makes a small snapshot of a step, with every number type that occurs and an asset."""
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("ä\nb\n", encoding="utf-8")

    def make(step: int, run: str = "") -> Snapshot:
        rng = np.random.default_rng(step)
        weights = {"encoder/layer_0/kernel": rng.normal(size=(7, 5)).astype(np.float32),
                   "encoder/layer_0/scale": np.array(rng.normal(), np.float32),
                   "decoder/empty": np.zeros([0, 3], np.float32)}
        optimizer = {"adam/m/encoder/layer_0/kernel": rng.normal(size=(7, 5)).astype(np.float32),
                     "updates": np.array(2 ** 40 + step, np.int64), "seed": np.array([2 ** 32 - 1, 5], np.uint32),
                     "skipped": np.array(3, np.int32), "odd": np.array([np.nan, np.inf, -0.0, 1e-45], np.float32)}
        state = {"step": step, "random_seed": 3, "metrics": {"val_loss": 0.1 + step}, "run": run}
        return Snapshot(weights, optimizer, state, "dtype: mixed\nname: ä\n", {"vocab.txt": str(vocabulary)})

    return make
