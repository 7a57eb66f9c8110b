"""Recipes of speech recognition on made-up speech: two utterances, a small width, a few updates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.parts.randomness import random_scope
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.trainer import Trainer

FOLDER = Path(__file__).parents[3] / "example_configs/speech2text"
# At a small width these train the same layers as other recipes: they differ in the number of layers in a block, in
# features, or in mixed precision. Tests of whole commands train toy-w2l.
LIKE_OTHERS = {"jasper10x3_LibriSpeech", "jasper10x5_LibriSpeech", "jasper10x5_LibriSpeech_nvgrad_masks",
               "jasper-Mini-for-Jetson", "toy-w2l", "w2l_large_8gpus", "w2lplus_large_8gpus_mp", "ds2_large_8gpus_mp",
               "ds2_small_1gpu", "digits-jca", "own-speech"}
COMMANDS = ("jasper_commands", "jasper_commands_8gpu")  # of Image2Label: test_image_recipes.py
ALPHABET = " abcdefghijklmnopqrstuvwxyz'"


def recipes_with(*encoders: str) -> list[Path]:
    """The recipes that have one of the encoders; others have tests of their own."""
    return sorted(path for path in FOLDER.glob("*.py") if path.stem not in ("librispeech-mini-overfit", *COMMANDS)
                  and load_config(path).sections["base_params"]["encoder"] in encoders)


def each_kind(recipes: list[Path]) -> list[Any]:
    """Parameters of a test; recipes like others are slow tests."""
    return [pytest.param(recipe, id=recipe.stem, marks=[pytest.mark.slow] if recipe.stem in LIKE_OTHERS else [])
            for recipe in recipes]


def train_params(recipe: Path, toy: Path) -> tuple[Any, dict[str, Any]]:
    """The model's class and the parameters of training on two utterances of toy speech, at full width."""
    config = resolve(load_config(recipe), "train")
    params = config.params("train")
    params.update(logdir=None, batch_size_per_gpu=2, num_epochs=None, max_steps=2, save_summaries_steps=None)
    params["data_layer_params"] = {**params["data_layer_params"], "dataset_files": [str(toy / "train.csv")],
                                   "vocab_file": str(toy / "vocab.txt"), "audio_root": None}
    return config.base_model, params


def assert_trains(base_model: Any, params: dict[str, Any], folder: Path) -> None:
    """Two updates, by the config as it is kept beside checkpoints, change every weight."""
    (folder / "config.yaml").write_text(to_yaml({"base_model": base_model, "base_params": params}), encoding="utf-8")
    config = resolve(load_config(folder / "config.yaml"), "train")
    model = build_model(describe_model(config.base_model, config.params("train"), "train"), seed=1)
    trainer = Trainer(model, None, Runner(), seed=1)
    before = {name: variable.numpy() for name, variable in trainer.trainable.items()}
    for _ in range(2):
        trainer.try_batch(np.arange(2))
    assert int(trainer.optimizer.updates) == 2
    for name, variable in trainer.trainable.items():
        assert np.isfinite(variable.numpy()).all() and not np.array_equal(variable, before[name]), name


def gradient_graph(base_model: Any, params: dict[str, Any]) -> list[tf.Tensor | None]:
    """The gradients of all weights, in a graph that is built and not run."""
    model = build_model(describe_model(base_model, params, "train"), seed=1)

    def step(batch: dict[str, Any]) -> list[tf.Tensor]:
        with tf.GradientTape() as tape, random_scope(0, tf.constant(0, tf.int64)):
            terms, _ = model.loss_terms(batch, training=True)
            loss = tf.add_n([term.weight * term.sum for term in terms])
        return tape.gradient(loss, model.trainable_variables)

    graph = tf.function(step, autograph=False).get_concrete_function(model.data_layer.input_signature)
    assert len(graph.structured_outputs) == len(model.trainable_variables)
    return graph.structured_outputs
