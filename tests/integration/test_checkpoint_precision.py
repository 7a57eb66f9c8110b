"""A checkpoint is the same whatever the precision: what one wrote loads into the others with identical weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.checkpoints import Snapshot, load_checkpoint, write_snapshot
from open_seq2seq.checkpoints.inputs import RunInputs
from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.run.restoring import load_base_model, restore_run, restore_weights
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.trainer import Trainer

DTYPES = ["float32", "mixed_float16", "mixed_bfloat16"]


def make_trainer(workspace: Path, dtype: str) -> Trainer:
    config = resolve(load_config(workspace / "config.py"), "train")
    params = {**config.params("train"), "dtype": dtype}
    return Trainer(build_model(describe_model(config.base_model, params, "train"), seed=1), None, Runner(), seed=1)


@pytest.fixture
def trainers(workspace: Path) -> dict[str, Trainer]:
    """A trainer in each precision, after two updates."""
    made = {dtype: make_trainer(workspace, dtype) for dtype in DTYPES}
    for trainer in made.values():
        for examples in (np.arange(4), np.arange(4, 8)):
            trainer.try_batch(examples)
    return made


@pytest.mark.long
def test_each_loads_into_each(workspace, trainers):
    saved = {}
    for dtype, trainer in trainers.items():
        path = workspace / dtype / "model.ckpt-2"
        state = {"step": 2, "micro_batch": 2}
        write_snapshot(Snapshot.take(trainer.variables, trainer.optimizer.state(), state, "", {}), path)
        saved[dtype] = load_checkpoint(path)
        assert int(trainer.optimizer.updates) + int(trainer.optimizer.skipped) == 2
    shapes = [{name: (value.shape, value.dtype) for name, value in checkpoint.weights.items()}
              for checkpoint in saved.values()]
    assert shapes[0] == shapes[1] == shapes[2]
    for target, trainer in trainers.items():
        for source, checkpoint in saved.items():
            for load in (lambda c=checkpoint, t=trainer: restore_run(t, c),
                         lambda c=checkpoint, t=trainer: restore_weights(t.model, RunInputs(t.model, None, {}), c),
                         lambda c=checkpoint, t=trainer: load_base_model(t.model, t.state, c.path)):
                for variable in trainer.variables.values():
                    variable.assign(variable * 0.0 - 1.0)
                load()
                for name, variable in trainer.variables.items():
                    np.testing.assert_array_equal(variable, checkpoint.weights[name],
                                                  err_msg=f"{source} into {target}: {name}")
        restore_run(trainer, saved["float32"])
        for name, value in saved["float32"].optimizer.items():
            if name.startswith("slots/"):
                np.testing.assert_array_equal(trainer.optimizer.state()[name], value)
        trainer.try_batch(np.arange(8, 12))  # and it trains on
