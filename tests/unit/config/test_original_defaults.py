"""Values that configs of NVIDIA's OpenSeq2Seq leave open."""

from __future__ import annotations

import math
from typing import Any

import pytest

from open_seq2seq import data, decoders, encoders
from open_seq2seq.config.loader import config_of_values
from open_seq2seq.config.original_defaults import _DEFAULTS, use_original_defaults
from open_seq2seq.config.params import declared_by
from open_seq2seq.optimizers.registry import OPTIMIZERS


def filled(**sections: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    config = config_of_values({"base_model": "Text2Text", "base_params": {}, **sections})
    lines = use_original_defaults(config)
    return config.sections, lines


@pytest.mark.parametrize(("choice", "name"), _DEFAULTS)
def test_each_value_is_declared_and_differs_from_the_default(choice: str, name: str):
    chosen = OPTIMIZERS[name] if choice == "optimizer" else getattr(
        {"data_layer": data, "decoder": decoders, "encoder": encoders}[choice], name)
    declared = chosen.get_optional_params() if choice == "optimizer" else declared_by(chosen).all
    for path, value in _DEFAULTS[choice, name].items():
        assert len(path) > 1 or declared[path[0]].default != value, path
    sections, lines = filled(base_params={choice: chosen})
    assert sections["base_params"] == filled(base_params={choice: f"open_seq2seq.{name}"})[0]["base_params"] | {
        choice: chosen}
    assert len(lines) == len(_DEFAULTS[choice, name])


def test_values_are_set_where_the_class_is_chosen_and_given_ones_are_kept():
    sections, lines = filled(
        base_params={"data_layer_params": {"cut_long": False}, "encoder": "TDNNEncoder",
                     "encoder_params": {"use_conv_mask": True}},
        train_params={"data_layer": "ParallelTextDataLayer"},
        eval_params={"data_layer": "ParallelTextDataLayer", "data_layer_params": {"length_buckets": True}})
    assert lines == ["data_layer_params/length_buckets: False"]
    assert sections["train_params"]["data_layer_params"] == {"length_buckets": False}
    assert sections["eval_params"]["data_layer_params"] == {"length_buckets": True}
    assert sections["base_params"]["encoder_params"] == {"use_conv_mask": True}


@pytest.mark.parametrize(("given", "scaling"), [
    ({}, None), ({"dtype": "mixed"}, 1.0), ({"dtype": "mixed", "loss_scaling": "Backoff"}, "Backoff")])
def test_mixed_precision_without_loss_scaling_scales_by_1(given: dict[str, Any], scaling: object):
    assert filled(base_params=given)[0]["base_params"].get("loss_scaling") == scaling


def test_the_weight_of_a_language_model_is_converted_only_if_it_is_used():
    params = {"alpha": 2.0}
    assert filled(base_params={"decoder_params": params})[0]["base_params"]["decoder_params"] == params
    sections, lines = filled(base_params={"decoder_params": params},
                             infer_params={"decoder_params": {"use_language_model": True}})
    assert sections["base_params"]["decoder_params"]["alpha"] == pytest.approx(2 / math.log(10))
    assert lines == ["decoder_params/alpha: 0.8686 (divided by ln 10)"]


def test_evaluation_reads_the_texts_of_training():
    layer = {"data_layer": "WKTDataLayer"}
    sections, lines = filled(train_params={**layer, "data_layer_params": {"data_root": "texts", "normalize": False}},
                             eval_params={**layer, "data_layer_params": {"normalize": False}})
    assert sections["eval_params"]["data_layer_params"] == {"data_root": "texts", "normalize": False}
    assert lines == ["data_layer_params/data_root: texts"]
