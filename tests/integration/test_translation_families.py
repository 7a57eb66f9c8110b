"""Recurrent and convolutional translation: any split of a batch gives the same update, and a stopped run goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.cli import main
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.models import Text2Text
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.optimizers import MixedPrecisionOptimizer, make_loss_scaler, make_optimizer
from open_seq2seq.parts.component import named_variables
from open_seq2seq.runners import Runner
from open_seq2seq.training.loop.step import TrainStep
from tests.unit.models.test_pairs import corpus, params_of  # noqa: F401  # a fixture

FAMILIES = {"recurrent": ("GNMTLikeEncoderWithEmbedding", "RNNDecoderWithAttention"),
            "convolutional": ("ConvS2SEncoder", "ConvS2SDecoder")}


def without_dropout(params: dict[str, Any]) -> dict[str, Any]:
    return {key: without_dropout(value) if isinstance(value, dict) else 1.0 if key.endswith("keep_prob") else value
            for key, value in params.items()}


def updated(params: dict[str, Any], groups: list[list[int]]) -> dict[str, np.ndarray]:
    """The weights after one update from micro-batches of these examples."""
    runner = Runner()
    with runner.scope():
        model = build_model(describe_model(Text2Text, params, "train"), seed=1)
        variables = {name: v for name, v in named_variables(model).items() if v.trainable}
        optimizer = MixedPrecisionOptimizer(make_optimizer("Momentum", {"momentum": 0.9}),
                                            lambda step: tf.constant(0.5), make_loss_scaler(1.0, None, tf.float32))
        optimizer.build(variables)
        step = TrainStep(model, optimizer, variables, runner, seed=1, iter_size=len(groups))
    step([model.data_layer.make_batch(np.array(group)) for group in groups])
    return {name: variable.numpy() for name, variable in variables.items()}


@pytest.fixture
def eagerly() -> Iterator[None]:
    """Runs functions without tracing them, which takes longer than a few updates of a small model."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.long
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("family", FAMILIES)
def test_two_unequal_halves_are_one_batch(family: str, corpus: dict[str, Any]):  # noqa: F811
    params = without_dropout(params_of(*FAMILIES[family], corpus))
    whole, halves = updated(params, [[0, 1, 2, 3]]), updated(params, [[1], [0, 2, 3]])
    for name, weight in whole.items():
        np.testing.assert_allclose(halves[name], weight, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_a_stopped_run_ends_in_the_bits_of_the_whole_one(family: str, tmp_path: Path,
                                                         corpus: dict[str, Any]):  # noqa: F811
    """With dropout, and two micro-batches in each update."""
    params = params_of(*FAMILIES[family], corpus)
    params.update(batch_size_per_gpu=2, iter_size=2, max_steps=3, save_checkpoint_steps=2, num_checkpoints=9,
                  random_seed=5, logdir=f"{tmp_path}/whole", dtype="float32")
    (tmp_path / "config.yaml").write_text(to_yaml({"base_model": "Text2Text", "base_params": params}))
    run = [f"--config_file={tmp_path}/config.yaml", "--mode=train"]
    assert main(run) == 0
    shutil.copytree(tmp_path / "whole/model.ckpt-2", tmp_path / "parts/model.ckpt-2")
    assert main([*run, f"--logdir={tmp_path}/parts", "--continue_learning"]) == 0
    for file in ("weights.safetensors", "optimizer.safetensors"):
        whole, parts = ((tmp_path / part / "model.ckpt-3" / file).read_bytes() for part in ("whole", "parts"))
        assert whole == parts, file
