"""Each network of the recipe that learns ten utterances by heart trains at a small width on made-up speech."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.utils.errors import ConfigError
from tests.unit.example_configs.speech_recipes import FOLDER, assert_trains, train_params

RECIPE = FOLDER / "librispeech-mini-overfit.py"
# Counted by hand from the layers' sizes.
NUM_WEIGHTS = {"w2lplus": 920_733, "jasper": 1_453_469, "quartznet": 325_373, "ds2": 778_877, "jca": 1_433_527}
WIDTHS = ("num_channels", "rnn_cell_dim", "n_hidden", "hidden_dim", "attention_dim", "tgt_emb_size")


def narrowed(value: Any, key: str = "") -> Any:
    """The same with an eighth of the channels; of many blocks the first three and the last two."""
    if isinstance(value, dict):
        return {name: narrowed(item, name) for name, item in value.items()}
    if isinstance(value, list):
        kept = [*value[:3], *value[-2:]] if key == "convnet_layers" and len(value) > 5 else value
        return [narrowed(item) for item in kept]
    return max(4, value // 8) if key in WIDTHS else value


@pytest.fixture(params=NUM_WEIGHTS)
def network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MODEL", request.param)
    return request.param


@pytest.fixture
def training(network: str, toy: Path) -> tuple[Any, dict[str, Any]]:
    """The model's class and its parameters on toy speech, which leaves no cache behind."""
    base_model, params = train_params(RECIPE, toy)
    params["data_layer_params"]["cache_features"] = False
    return base_model, params


@pytest.mark.long
def test_it_trains(training: tuple[Any, dict[str, Any]], tmp_path: Path):
    base_model, params = training
    for part in ("encoder_params", "decoder_params"):
        params[part] = narrowed(params.get(part) or {})
    assert_trains(base_model, params, tmp_path)


def test_number_of_weights(network: str, training: tuple[Any, dict[str, Any]]):
    model = build_model(describe_model(*training, "train"), seed=1)
    assert sum(int(np.prod(variable.shape)) for variable in model.trainable_variables) == NUM_WEIGHTS[network]


def test_it_is_judged_by_what_it_learns(network: str):
    config = resolve(load_config(RECIPE), "train_eval")
    learnt, judged = (config.params(section)["data_layer_params"] for section in ("train", "eval"))
    assert learnt == judged and "augmentation" not in learnt


def test_another_network_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MODEL", "jaspr")
    with pytest.raises(ConfigError, match="MODEL is 'jaspr' but has to be one of w2lplus, jasper, quartznet, ds2, jca"):
        load_config(RECIPE)
