"""Every recipe of speech recognition trains at a small width on made-up speech; sizes of the full ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.utils.errors import ConfigError
from tests.unit.example_configs.recipes import EXAMPLES, assert_trains, narrowed, num_weights, speech_params

FOLDER = EXAMPLES / "speech2text"
OVERFIT = FOLDER / "librispeech-mini-overfit.py"  # of several networks
COMMANDS = ("jasper_commands", "jasper_commands_8gpu")  # of Image2Label: test_image_recipes.py
RECOGNISERS = sorted(path for path in FOLDER.glob("*.py") if path != OVERFIT and path.stem not in COMMANDS)
# At a small width these train the same layers as other recipes: they differ in the number of layers in a block, in
# features, or in mixed precision. Tests of whole commands train toy-w2l.
LIKE_OTHERS = {"jasper10x3_LibriSpeech", "jasper10x5_LibriSpeech", "jasper10x5_LibriSpeech_nvgrad_masks",
               "jasper-Mini-for-Jetson", "toy-w2l", "w2l_large_8gpus", "w2lplus_large_8gpus_mp", "ds2_large_8gpus_mp",
               "ds2_medium_4gpus", "ds2_small_1gpu", "ds2_toy_config", "digits-jca", "own-speech"}
# Published: Jasper 10x3 200.5 million, Jasper 10x5 322 to 333 million; others counted by hand from the layers' sizes.
MILLIONS = {"w2l_large_8gpus": 105.77, "w2l_large_8gpus_mp": 105.77, "w2lplus_large_8gpus": 106.50,
            "w2lplus_large_8gpus_mp": 106.50, "jasper10x3_LibriSpeech": 200.50, "jasper10x5_LibriSpeech": 322.29,
            "jasper10x5_LibriSpeech_nvgrad": 332.63, "jasper10x5_LibriSpeech_nvgrad_masks": 332.63,
            "quartznet15x5_LibriSpeech": 19.19, "jasper-Mini-for-Jetson": 8.19,
            "ds2_small_1gpu": 9.99, "ds2_medium_4gpus": 25.72, "ds2_large_8gpus": 58.96, "ds2_large_8gpus_mp": 58.96,
            "lstm_small_1gpu": 3.45, "ds2_toy_config": 5.39, "jca_large_8gpus": 42.75}
SMALL = ("digits-w2l", "own-speech", "toy-w2l", "digits-ds2", "digits-jca")
NETWORKS = {"w2lplus": 920_733, "jasper": 1_453_469, "quartznet": 325_373, "ds2": 778_877, "jca": 1_433_527}


def shrunken(recipe: Path, toy: Path) -> tuple[Any, dict[str, Any]]:
    """A recipe's model and its parameters at a small width."""
    base_model, params = speech_params(recipe, toy)
    return base_model, {**params, **{part: narrowed(params.get(part) or {})
                                     for part in ("encoder_params", "decoder_params")}}


@pytest.mark.long
@pytest.mark.parametrize("recipe", [pytest.param(recipe, id=recipe.stem, marks=[
    pytest.mark.slow] if recipe.stem in LIKE_OTHERS else []) for recipe in RECOGNISERS])
def test_recipe_trains(recipe: Path, toy: Path, tmp_path: Path):
    assert_trains(*shrunken(recipe, toy), tmp_path)


@pytest.mark.parametrize("recipe", RECOGNISERS, ids=lambda path: path.stem)
def test_number_of_weights(recipe: Path, toy: Path):
    found = num_weights(*speech_params(recipe, toy)) / 1e6
    if recipe.stem in MILLIONS:
        assert found == pytest.approx(MILLIONS[recipe.stem], abs=0.006)
    else:
        assert recipe.stem in SMALL and found < 3


@pytest.mark.long
@pytest.mark.parametrize("network", NETWORKS)
def test_each_network_of_the_recipe_that_learns_by_heart(network: str, toy: Path, monkeypatch: pytest.MonkeyPatch):
    """It is judged by the ten utterances that it learns; its layers are those of other recipes, which train above."""
    monkeypatch.setenv("MODEL", network)
    assert num_weights(*speech_params(OVERFIT, toy)) == NETWORKS[network]
    config = resolve(load_config(OVERFIT), "train_eval")
    learnt, judged = (config.params(section)["data_layer_params"] for section in ("train", "eval"))
    assert learnt == judged and "augmentation" not in learnt


def test_another_network_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MODEL", "jaspr")
    with pytest.raises(ConfigError, match="MODEL is 'jaspr' but has to be one of w2lplus, jasper, quartznet, ds2, jca"):
        load_config(OVERFIT)
