"""The JSON schema of configs: it accepts every recipe, refuses what the toolkit refuses, and says where."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from open_seq2seq.config.loader import load_config, parse_config
from open_seq2seq.config.merge import copy_nested
from open_seq2seq.config.recipes import find_recipe, recipe_files
from open_seq2seq.config.resolve import resolve
from open_seq2seq.config.serialize import to_yaml
from open_seq2seq.config.yaml_text import load_yaml
from open_seq2seq.models.builder import describe_section
from open_seq2seq.models.config_schema import config_schema
from open_seq2seq.run.tools import as_yaml
from open_seq2seq.utils.errors import ConfigError
from open_seq2seq.utils.shipped import RECIPES
from tests.unit.example_configs.mutations import HELD, paths_of

FILES = recipe_files()


@cache
def validator() -> jsonschema.Draft7Validator:
    schema = json.loads(json.dumps(config_schema(), allow_nan=False))
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def places(config: Any) -> list[str]:
    """Paths of what the schema refuses; a key that must not be there is the last word of its path."""
    found = []
    for error in validator().iter_errors(config):
        keys = list(error.absolute_path)
        if error.validator == "additionalProperties":
            keys.append(next(key for key in error.instance if key not in error.schema["properties"]))
        found.append("/".join(map(str, keys)))
    return found


@cache
def recipe(name: str) -> dict[str, Any]:
    return load_yaml(as_yaml(Path(find_recipe(f"recipe:{name}"))))


def changed(name: str, path: str, value: Any) -> dict[str, Any]:
    config = copy_nested(recipe(name))
    place = config
    *above, key = path.split("/")
    for one in above:
        place[one] = place.get(one) or {}
        place = place[one]
    place[key] = value
    return config


def is_accepted(config: dict[str, Any]) -> bool:
    """Whether the toolkit itself accepts a config, apart from its data."""
    try:
        for mode in ("train_eval", "infer"):
            resolved = resolve(parse_config(to_yaml(config), "config.yaml"), mode)
            for section in resolved.sections:
                describe_section(resolved, section)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(RECIPES).with_suffix("").as_posix())
def test_every_recipe_is_accepted_as_it_is_copied_and_as_it_is_saved(path):
    assert places(load_yaml(as_yaml(path))) == []
    assert places(load_yaml(to_yaml(resolve(load_config(path), "train_eval").as_sections()))) == []


TT, JCA, GST, LM, RN = "nmt-reversal-TT", "digits-jca", "tacotron_gst", "lstm-wkt2-small", "resnet-50-v2"
MUTATIONS = [
    (TT, "base_model", "Text2Txt"), (TT, "bse_params", {}), (TT, "base_params/encodr", "TransformerEncoder"),
    (TT, "base_params/encoder", "TransformrEncoder"), (TT, "base_params/encoder", 3),
    (TT, "base_params/max_steps", 0), (TT, "base_params/max_steps", "many"), (TT, "base_params/max_steps", 1.5),
    (TT, "base_params/max_steps", True), (TT, "base_params/num_gpus", 4096), (TT, "base_params/use_horovod", "yes"),
    (TT, "base_params/optimizer", "Adm"), (TT, "base_params/optimizer_params/beta1", 1.5),
    (TT, "base_params/optimizer_params/betta", 0.9), (TT, "base_params/lr_policy", "transformer"),
    (TT, "base_params/lr_policy_params/warmup", 10), (TT, "base_params/lr_policy_params/warmup_steps", [1]),
    (TT, "base_params/dtype", "float8"), (TT, "base_params/loss_scaling", "Backof"),
    (TT, "base_params/encoder_params/encoder_layers", 0), (TT, "base_params/encoder_params/layers", 2),
    (TT, "base_params/decoder_params/beam_size", "five"), (TT, "infer_params/decoder_params/beamsize", 3),
    (TT, "eval_params/decoder_params/beam_size", 0), (TT, "eval_params/data_layer_params/source_fil", "x"),
    (TT, "train_params/loss_params/label_smoothing", 2.0), (TT, "base_params/best_metric_mode", "most"),
    (TT, "base_params/larc_params", {"larc_et": 0.1}), (TT, "base_params/hooks", "hook"),
    (JCA, "base_params/decoder_params/ctc_decoder", "CTCDecoder"),
    (JCA, "base_params/decoder_params/attn_decoder_params/hiden_dim", 3),
    (JCA, "base_params/encoder_params/dropout_keep_prob", -0.1), (GST, "base_params/encoder_params/rnn_type", "LSTM5"),
    (LM, "base_params/encoder_params/core_cell_params/num_units", -1), (RN, "base_params/loss", "CrossEntropy"),
    (RN, "base_params/regularizer_params", {"scal": 0.1}),
]

# By the toolkit: when the parts are built.
FOUND_LATER = ("base_params/decoder_params/attn_decoder_params/hiden_dim", "base_params/regularizer_params",
               "base_params/encoder_params/core_cell_params/num_units")


@pytest.mark.parametrize(("name", "path", "value"), MUTATIONS, ids=lambda value: str(value))
def test_a_mistake_is_refused_with_its_place_as_the_toolkit_refuses_it(name, path, value):
    config = changed(name, path, value)
    place = f"{path}/{next(iter(value))}" if isinstance(value, dict) and value else path
    assert place in places(config)
    assert not is_accepted(config) or path in FOUND_LATER


@pytest.mark.parametrize(("path", "value"), [
    ("base_params/max_steps", "1e5"), ("base_params/max_steps", 1e5), ("base_params/max_grad_norm", "None"),
    ("base_params/dtype", "mixed"), ("base_params/loss_scaling", 512), ("base_params/loss_scaling", "backoff"),
    ("base_params/encoder", "mine.py:Encoder"), ("base_params/optimizer", "tf.keras.optimizers.Lion"),
    ("base_params/optimizer_params", "<drop>"), ("infer_params/decoder_params/beam_size", "<drop>"),
])
def test_other_spellings_are_accepted(path, value):
    assert places(changed(TT, path, value)) == []


def test_a_config_with_a_base_may_leave_out_the_model():
    assert places({"base_config": "recipe:own-text", "base_params": {"max_steps": 5}}) == []
    assert places({"base_config": "recipe:own-text", "base_params": {"max_steps": -5}}) == ["base_params/max_steps"]
    assert places({"base_params": {}}) == places({"base_model": "Text2Text"}) == [""]


def test_parameters_have_a_description_a_default_and_a_unit():
    definitions = validator().schema["definitions"]
    assert definitions["encoder.TransformerEncoder"]["properties"]["num_heads"]["description"]
    steps = definitions["model.Text2Text"]["properties"]["num_checkpoints"]
    assert steps["default"] == 5 and steps["minimum"] == 1
    assert definitions["model.Text2Text"]["properties"]["watchdog_seconds"]["description"].endswith("Unit: seconds.")


IN_YAML = [value for value in HELD if value is None or isinstance(value, (bool, int, float, str, list, dict))
           and "nan" not in repr(value) and "inf" not in repr(value) and len(repr(value)) < 300]


def disagreements(count: int) -> list[tuple[str, str, list[str]]]:
    """What the schema refuses, out of ``count`` changes of recipes that the toolkit accepts."""
    draw, found = random.Random(count), []
    for _ in range(count):
        path = draw.choice(FILES)
        # What is inside of parts, and regularisers, the toolkit itself checks later.
        keys = draw.choice([keys for keys in paths_of(path, "train") if len(keys) < 3 and "larizer" not in keys[0]])
        name = path.relative_to(RECIPES).with_suffix("").as_posix()
        config = changed(name, "/".join(("train_params", *keys)), draw.choice(IN_YAML))
        if (refused := places(config)) and is_accepted(config):
            found.append((path.stem, "/".join(keys), refused))
    return found


def test_the_schema_refuses_nothing_that_the_toolkit_accepts():
    assert disagreements(60) == []


@pytest.mark.long
@pytest.mark.parametrize("count", [400, pytest.param(1500, marks=pytest.mark.slow)])
def test_the_schema_refuses_nothing_that_the_toolkit_accepts_in_many_recipes(count):
    assert disagreements(count) == []
