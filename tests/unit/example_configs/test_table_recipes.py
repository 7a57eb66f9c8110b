"""Recipes of pairs in tables, one of them with two encoders: they train at toy size on data of the toy script."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.trainer import Trainer
from tests.integration.toy_data import make_toy_data

FOLDER = Path(__file__).parents[3] / "example_configs" / "text2text"
SIZES = {"hidden_size": 16, "num_heads": 2, "filter_size": 32}


@pytest.mark.long
@pytest.mark.parametrize(("name", "task"), [
    ("toy-tables/dialogue", "dialogue"), ("toy-tables/summary", "summary"), ("toy-several/two-sources", "sources")])
def test_it_trains(name: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    make_toy_data(f"--task={task}")
    config = resolve(load_config(FOLDER / f"{name}.py"), "train_eval")
    params = {**config.params("train"), "save_summaries_steps": None, "batch_size_per_gpu": 8}
    params["decoder_params"] = {**params["decoder_params"], **SIZES, "num_hidden_layers": 1}
    encoder = params["encoder_params"]
    for entry in (inside["encoder_params"] for inside in encoder.get("encoders", {"": {"encoder_params": encoder}}
                                                                     ).values()):
        entry.update(SIZES, encoder_layers=1)
    trainer = Trainer(build_model(describe_model(config.base_model, params, "train"), seed=1), None, Runner(), seed=1)
    assert trainer.model.data_layer.num_examples == 60
    before = {name: variable.numpy() for name, variable in trainer.trainable.items()}
    for _ in range(2):
        trainer.try_batch(np.arange(8))
    for name, variable in trainer.trainable.items():
        assert np.isfinite(variable.numpy()).all() and not np.array_equal(variable, before[name]), name
