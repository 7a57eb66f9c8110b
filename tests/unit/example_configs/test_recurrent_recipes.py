"""Every recurrent or attending recipe of speech recognition trains at a small width on made-up speech."""

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
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.parts.component import BorrowedVariable, creating_variables, named_modules
from open_seq2seq.parts.randomness import random_scope
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.trainer import Trainer

FOLDER = Path(__file__).parents[3] / "example_configs/speech2text"
RECIPES = sorted(path for path in FOLDER.glob("*.py")
                 if any(name in path.read_text(encoding="utf-8") for name in ("DeepSpeech2", "ListenAttend")))
ALPHABET = " abcdefghijklmnopqrstuvwxyz'"
# Counted by hand from the layers' sizes.
MILLIONS = {"ds2_small_1gpu": 9.99, "ds2_medium_4gpus": 25.72, "ds2_large_8gpus": 58.96, "ds2_large_8gpus_mp": 58.96,
            "lstm_small_1gpu": 3.45, "ds2_toy_config": 5.39, "jca_large_8gpus": 42.75}


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


WIDTHS = ("num_channels", "rnn_cell_dim", "n_hidden", "hidden_dim", "attention_dim", "tgt_emb_size")


def narrowed(value: Any, key: str = "") -> Any:
    """The same with a sixteenth of the channels and two layers of a kind at most."""
    if isinstance(value, dict):
        return {name: narrowed(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [narrowed(item) for item in value]
    if key in WIDTHS:
        return max(4, value // 16)
    return min(2, value) if key in ("repeat", "num_rnn_layers") else value


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipe_trains(recipe: Path, toy: Path, tmp_path: Path):
    base_model, params = train_params(recipe, toy)
    for part in ("encoder_params", "decoder_params"):
        params[part] = narrowed(params.get(part) or {})
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


def num_weights(recipe: Path, toy: Path) -> int:
    """Counts trainable weights without making them."""
    base_model, params = train_params(recipe, toy)
    spec = describe_model(base_model, params, "train")
    with creating_variables(borrow=True):
        model = spec.model_class(spec.params, "train")
        layer = spec.params["data_layer"]({**spec.params["data_layer_params"], "batch_size": 2, "mode": "train"}, model,
                                          "data_layer", "train")
        model.data_layer = layer
        for part in ("encoder", "decoder"):
            made = spec.params[part]
            known = {**made.get_required_params(), **made.get_optional_params()}
            derived = {name: value for name, value in model.derived_params(part).items() if name in known}
            setattr(model, part, made({**(spec.params.get(f"{part}_params") or {}), **derived}, model, part, "train"))
    return sum(int(np.prod(value.shape)) for module in named_modules(model).values()
               for name, value in vars(module).items()
               if isinstance(value, BorrowedVariable) and not name.startswith("moving")) + _in_lists(model)


def _in_lists(model: Any) -> int:
    """Weights that a module holds in a list."""
    return sum(int(np.prod(value.shape)) for module in named_modules(model).values() for held in vars(module).values()
               if isinstance(held, (list, tuple)) for value in held if isinstance(value, BorrowedVariable))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_number_of_weights(recipe: Path, toy: Path):
    if recipe.stem in MILLIONS:
        assert num_weights(recipe, toy) / 1e6 == pytest.approx(MILLIONS[recipe.stem], abs=0.006)
    else:
        assert recipe.stem in ("digits-ds2", "digits-jca") and num_weights(recipe, toy) < 3e6


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_full_size_graph_is_built(recipe: Path, toy: Path):
    base_model, params = train_params(recipe, toy)
    model = build_model(describe_model(base_model, params, "train"), seed=1)

    def step(batch: dict[str, Any]) -> list[tf.Tensor]:
        with tf.GradientTape() as tape, random_scope(0, tf.constant(0, tf.int64)):
            terms, _ = model.loss_terms(batch, training=True)
            loss = tf.add_n([term.weight * term.sum for term in terms])
        return tape.gradient(loss, model.trainable_variables)

    graph = tf.function(step, autograph=False).get_concrete_function(model.data_layer.input_signature)
    assert len(graph.structured_outputs) == len(model.trainable_variables) > 8
    assert all(gradient is not None for gradient in graph.structured_outputs)
