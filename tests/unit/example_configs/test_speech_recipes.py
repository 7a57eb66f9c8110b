"""Every recipe of speech recognition trains at a small width on made-up speech; sizes of the full ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.encoders import TDNNEncoder
from open_seq2seq.parts.component import SharedVariable, creating_variables, named_modules
from tests.unit.example_configs.speech_recipes import (
    ALPHABET,
    COMMANDS,
    FOLDER,
    assert_trains,
    each_kind,
    gradient_graph,
    recipes_with,
    train_params,
)
from tests.unit.example_configs.test_recurrent_recipes import RECIPES

CONVOLUTIONAL = recipes_with("TDNNEncoder")
MILLIONS = {"w2l_large_8gpus": 105.77, "w2l_large_8gpus_mp": 105.77, "w2lplus_large_8gpus": 106.50,
            "w2lplus_large_8gpus_mp": 106.50, "jasper10x3_LibriSpeech": 200.50, "jasper10x5_LibriSpeech": 322.29,
            "jasper10x5_LibriSpeech_nvgrad": 332.63, "jasper10x5_LibriSpeech_nvgrad_masks": 332.63,
            "quartznet15x5_LibriSpeech": 19.19, "jasper-Mini-for-Jetson": 8.19}


def narrowed(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first three blocks and the last two, of two layers at most, with a sixteenth of the channels."""
    return [{**layer, "num_channels": max(4, layer["num_channels"] // 16), "repeat": min(2, layer["repeat"])}
            for layer in [*layers[:3], *layers[-2:]]]


def test_every_recipe_is_tested():
    overfit = FOLDER / "librispeech-mini-overfit.py"  # of several networks: test_overfit_recipe.py
    commands = {FOLDER / f"{name}.py" for name in COMMANDS}
    assert {*CONVOLUTIONAL, *RECIPES, *commands, overfit} == set(FOLDER.glob("*.py"))


@pytest.mark.long
@pytest.mark.parametrize("recipe", each_kind(CONVOLUTIONAL))
def test_recipe_trains(recipe: Path, toy: Path, tmp_path: Path):
    base_model, params = train_params(recipe, toy)
    encoder = params["encoder_params"]
    params["encoder_params"] = {**encoder, "convnet_layers": narrowed(encoder["convnet_layers"])}
    assert_trains(base_model, params, tmp_path)


def num_weights(recipe: Path) -> int:
    """Counts trainable weights without making them."""
    params = resolve(load_config(recipe), "train").params("train")
    with creating_variables(shared=True):
        encoder = TDNNEncoder({**params["encoder_params"], "num_audio_features":
                               params["data_layer_params"]["num_audio_features"]})
    held = [value for module in named_modules(encoder).values() for name, value in vars(module).items()
            if isinstance(value, SharedVariable) and not name.startswith("moving")]
    symbols = len(ALPHABET) + 1
    return sum(int(np.prod(value.shape)) for value in held) + (encoder.output_size + 1) * symbols


@pytest.mark.parametrize("recipe", CONVOLUTIONAL, ids=lambda path: path.stem)
def test_number_of_weights(recipe: Path):
    """Published: Jasper 10x3 200.5 million, Jasper 10x5 322 to 333 million; others as computed by hand."""
    if recipe.stem in MILLIONS:
        assert num_weights(recipe) / 1e6 == pytest.approx(MILLIONS[recipe.stem], abs=0.006)
    else:
        assert recipe.stem in ("digits-w2l", "own-speech", "toy-w2l") and num_weights(recipe) < 3e6


PUBLISHED_WEIGHTS = {  # alpha for base-10 logarithms, and beta
    **dict.fromkeys(("ds2_small_1gpu", "ds2_medium_4gpus", "ds2_large_8gpus", "ds2_large_8gpus_mp", "lstm_small_1gpu"),
                    (2.0, 1.0)),
    **dict.fromkeys(("w2l_large_8gpus", "w2l_large_8gpus_mp", "w2lplus_large_8gpus", "w2lplus_large_8gpus_mp"),
                    (2.0, 1.5)),
    "ds2_toy_config": (1.0, 1.5)}


@pytest.mark.parametrize("name", PUBLISHED_WEIGHTS)
def test_a_language_model_weighs_as_much_as_published(name: str):
    """Here logarithms are natural: one in base 10 is 2.303 times smaller."""
    alpha, beta = PUBLISHED_WEIGHTS[name]
    decoder = resolve(load_config(FOLDER / f"{name}.py"), "infer").params("infer")["decoder_params"]
    assert decoder["alpha"] * np.log(10) == pytest.approx(alpha, abs=0.02) and decoder["beta"] == beta


@pytest.mark.slow
@pytest.mark.parametrize("recipe", CONVOLUTIONAL, ids=lambda path: path.stem)
def test_full_size_graph_is_built(recipe: Path, toy: Path):
    base_model, params = train_params(recipe, toy)
    gradients = gradient_graph(base_model, params)
    layers = sum(layer["repeat"] for layer in params["encoder_params"]["convnet_layers"])
    assert len(gradients) >= 3 * layers + 2 and all(gradient is not None for gradient in gradients)
