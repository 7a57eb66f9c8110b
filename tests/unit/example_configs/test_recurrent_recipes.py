"""Every recurrent or attending recipe of speech recognition trains at a small width on made-up speech."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from open_seq2seq.models.builder import describe_model
from open_seq2seq.parts.component import SharedVariable, creating_variables, named_modules
from tests.unit.example_configs.speech_recipes import (
    assert_trains,
    each_kind,
    gradient_graph,
    recipes_with,
    train_params,
)

RECIPES = recipes_with("DeepSpeech2Encoder", "ListenAttendSpellEncoder")
# Counted by hand from the layers' sizes.
MILLIONS = {"ds2_small_1gpu": 9.99, "ds2_medium_4gpus": 25.72, "ds2_large_8gpus": 58.96, "ds2_large_8gpus_mp": 58.96,
            "lstm_small_1gpu": 3.45, "ds2_toy_config": 5.39, "jca_large_8gpus": 42.75}


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


@pytest.mark.long
@pytest.mark.parametrize("recipe", each_kind(RECIPES))
def test_recipe_trains(recipe: Path, toy: Path, tmp_path: Path):
    base_model, params = train_params(recipe, toy)
    for part in ("encoder_params", "decoder_params"):
        params[part] = narrowed(params.get(part) or {})
    assert_trains(base_model, params, tmp_path)


def num_weights(recipe: Path, toy: Path) -> int:
    """Counts trainable weights without making them."""
    base_model, params = train_params(recipe, toy)
    spec = describe_model(base_model, params, "train")
    with creating_variables(shared=True):
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
               if isinstance(value, SharedVariable) and not name.startswith("moving")) + _in_lists(model)


def _in_lists(model: Any) -> int:
    """Weights that a module holds in a list."""
    return sum(int(np.prod(value.shape)) for module in named_modules(model).values() for held in vars(module).values()
               if isinstance(held, (list, tuple)) for value in held if isinstance(value, SharedVariable))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_number_of_weights(recipe: Path, toy: Path):
    if recipe.stem in MILLIONS:
        assert num_weights(recipe, toy) / 1e6 == pytest.approx(MILLIONS[recipe.stem], abs=0.006)
    else:
        assert recipe.stem in ("digits-ds2", "digits-jca") and num_weights(recipe, toy) < 3e6


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_full_size_graph_is_built(recipe: Path, toy: Path):
    gradients = gradient_graph(*train_params(recipe, toy))
    assert len(gradients) > 8 and all(gradient is not None for gradient in gradients)
