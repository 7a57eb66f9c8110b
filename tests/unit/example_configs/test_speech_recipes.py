"""Every recipe of speech recognition trains at a small width on made-up speech; sizes of the full ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.encoders import TDNNEncoder
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.parts.component import BorrowedVariable, creating_variables, named_modules
from open_seq2seq.parts.randomness import random_scope
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.trainer import Trainer
from tests.unit.example_configs.test_recurrent_recipes import RECIPES

FOLDER = Path(__file__).parents[3] / "example_configs/speech2text"
CONVOLUTIONAL = sorted(path for path in FOLDER.glob("*.py") if "TDNNEncoder" in path.read_text(encoding="utf-8"))
ALPHABET = " abcdefghijklmnopqrstuvwxyz'"
MILLIONS = {"w2l_large_8gpus": 105.77, "w2l_large_8gpus_mp": 105.77, "w2lplus_large_8gpus": 106.50,
            "w2lplus_large_8gpus_mp": 106.50, "jasper10x3_LibriSpeech": 200.50, "jasper10x5_LibriSpeech": 322.29,
            "jasper10x5_LibriSpeech_nvgrad": 332.63, "jasper10x5_LibriSpeech_nvgrad_masks": 332.63,
            "quartznet15x5_LibriSpeech": 19.19, "jasper-Mini-for-Jetson": 8.19}


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    write_toy_speech(str(folder), {"train": 2}, words=(2, 2), rate=16000)
    (folder / "vocab.txt").write_text("\n".join(ALPHABET) + "\n", encoding="utf-8")
    return folder


def train_params(recipe: Path, toy: Path) -> tuple[Any, dict[str, Any]]:
    """The model's class and the parameters of training on two utterances of toy speech, at full width."""
    config = resolve(load_config(recipe), "train")
    params = config.params("train")
    params.update(logdir=None, batch_size_per_gpu=2, num_epochs=None, max_steps=2, save_summaries_steps=None)
    params["data_layer_params"] = {**params["data_layer_params"], "dataset_files": [str(toy / "train.csv")],
                                   "vocab_file": str(toy / "vocab.txt"), "audio_root": None}
    return config.base_model, params


def narrowed(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first three blocks and the last two, of two layers at most, with a sixteenth of the channels."""
    return [{**layer, "num_channels": max(4, layer["num_channels"] // 16), "repeat": min(2, layer["repeat"])}
            for layer in [*layers[:3], *layers[-2:]]]


def test_every_recipe_is_tested():
    assert {*CONVOLUTIONAL, *RECIPES} == set(FOLDER.glob("*.py"))


@pytest.mark.parametrize("recipe", CONVOLUTIONAL, ids=lambda path: path.stem)
def test_recipe_trains(recipe: Path, toy: Path, tmp_path: Path):
    base_model, params = train_params(recipe, toy)
    encoder = params["encoder_params"]
    params["encoder_params"] = {**encoder, "convnet_layers": narrowed(encoder["convnet_layers"])}
    (tmp_path / "config.yaml").write_text(to_yaml({"base_model": base_model, "base_params": params}), encoding="utf-8")
    config = resolve(load_config(tmp_path / "config.yaml"), "train")  # as it is kept beside checkpoints
    model = build_model(describe_model(config.base_model, config.params("train"), "train"), seed=1)
    trainer = Trainer(model, None, Runner(), seed=1)
    before = {name: variable.numpy() for name, variable in trainer.trainable.items()}
    for _ in range(2):
        trainer.try_batch(np.arange(2))
    assert int(trainer.optimizer.updates) == 2
    for name, variable in trainer.trainable.items():
        assert np.isfinite(variable.numpy()).all() and not np.array_equal(variable, before[name]), name


def num_weights(recipe: Path) -> int:
    """Counts trainable weights without making them."""
    params = resolve(load_config(recipe), "train").params("train")
    with creating_variables(borrow=True):
        encoder = TDNNEncoder({**params["encoder_params"], "num_audio_features":
                               params["data_layer_params"]["num_audio_features"]})
    held = [value for module in named_modules(encoder).values() for name, value in vars(module).items()
            if isinstance(value, BorrowedVariable) and not name.startswith("moving")]
    symbols = len(ALPHABET) + 1
    return sum(int(np.prod(value.shape)) for value in held) + (encoder.output_size + 1) * symbols


@pytest.mark.parametrize("recipe", CONVOLUTIONAL, ids=lambda path: path.stem)
def test_number_of_weights(recipe: Path):
    """Published: Jasper 10x3 200.5 million, Jasper 10x5 322 to 333 million; others as computed by hand."""
    if recipe.stem in MILLIONS:
        assert num_weights(recipe) / 1e6 == pytest.approx(MILLIONS[recipe.stem], abs=0.006)
    else:
        assert recipe.stem in ("digits-w2l", "toy-w2l") and num_weights(recipe) < 3e6


@pytest.mark.slow
@pytest.mark.parametrize("recipe", CONVOLUTIONAL, ids=lambda path: path.stem)
def test_full_size_graph_is_built(recipe: Path, toy: Path):
    base_model, params = train_params(recipe, toy)
    model = build_model(describe_model(base_model, params, "train"), seed=1)

    def step(batch: dict[str, Any]) -> list[tf.Tensor]:
        with tf.GradientTape() as tape, random_scope(0, tf.constant(0, tf.int64)):
            terms, _ = model.loss_terms(batch, training=True)
        return tape.gradient(terms[0].sum, model.trainable_variables)

    graph = tf.function(step, autograph=False).get_concrete_function(model.data_layer.input_signature)
    layers = sum(layer["repeat"] for layer in params["encoder_params"]["convnet_layers"])
    assert len(graph.structured_outputs) == len(model.trainable_variables) >= 3 * layers + 2
    assert all(gradient is not None for gradient in graph.structured_outputs)
