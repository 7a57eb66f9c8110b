"""Values that configs of NVIDIA's OpenSeq2Seq leave open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from open_seq2seq import data, decoders, encoders
from open_seq2seq.config.data_note import SCHEMA_LINE
from open_seq2seq.config.loader import config_of_values, load_config
from open_seq2seq.config.original_defaults import _DEFAULTS, use_original_defaults
from open_seq2seq.config.overrides import Override, parse_overrides
from open_seq2seq.config.params import declared_by
from open_seq2seq.optimizers.lr_policies import poly_decay
from open_seq2seq.optimizers.registry import OPTIMIZERS
from open_seq2seq.utils.errors import UserError
from scripts.migrate_config import main as migrate_config


def filled(overrides: Sequence[Override] = (),
           **sections: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    config = config_of_values({"base_model": "Text2Text", "base_params": {}, **sections})
    config.old_names = ("tf.layers.dense",)
    lines = use_original_defaults(config, overrides)
    return config.sections, lines


@pytest.mark.parametrize(("choice", "name"), _DEFAULTS)
def test_each_value_is_declared_and_differs_from_the_default(choice: str, name: str):
    chosen = OPTIMIZERS[name] if choice == "optimizer" else getattr(
        {"data_layer": data, "decoder": decoders, "encoder": encoders}[choice], name)
    declared = chosen.get_optional_params() if choice == "optimizer" else declared_by(chosen).all
    for path, value in _DEFAULTS[choice, name].items():
        assert len(path) > 1 or declared[path[0]].default != value, path  # a nested default is in the class's own code
    sections, lines = filled(base_params={choice: chosen})
    for other in (f"open_seq2seq.{name}", f"parts.py:{name}", type("Own", (chosen,), {})):
        assert filled(base_params={choice: other})[0]["base_params"] == {**sections["base_params"], choice: other}
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


def test_version_1_of_a_resnet_is_here_version_1_5():
    sections, lines = filled(base_params={"encoder": "ResNetEncoder", "encoder_params": {"version": 1}})
    assert (sections["base_params"]["encoder_params"], lines) == ({"version": 1.5}, ["encoder_params/version: 1.5"])
    assert not filled(base_params={"encoder": "ResNetEncoder", "encoder_params": {"version": 2}})[1]
    sections, _ = filled(base_params={"encoder_params": {"version": 1}}, train_params={"encoder": "ResNetEncoder"})
    assert sections["base_params"]["encoder_params"] == {"version": 1.5}


@pytest.mark.parametrize(("given", "scaling"), [
    ({}, None), ({"dtype": "mixed"}, 1.0), ({"dtype": "mixed", "loss_scaling": "Backoff"}, "Backoff")])
def test_mixed_precision_without_loss_scaling_scales_by_1(given: dict[str, Any], scaling: object):
    assert filled(base_params=given)[0]["base_params"].get("loss_scaling") == scaling


def test_the_weight_of_a_language_model_is_converted():
    sections, lines = filled(base_params={"decoder": "FullyConnectedCTCDecoder", "decoder_params": {"alpha": 2.0}},
                             infer_params={"decoder_params": {"alpha": 1}})
    assert sections["base_params"]["decoder_params"]["alpha"] == pytest.approx(2 / math.log(10))
    assert sections["infer_params"]["decoder_params"]["alpha"] == pytest.approx(1 / math.log(10))
    assert lines[0] == "decoder_params/alpha: 0.8686 (that of the config, divided by ln 10)"
    search = {"decoder": "TransformerDecoder", "decoder_params": {"alpha": 0.6}}
    assert filled(base_params=search)[0]["base_params"] == search


def test_dropout_that_the_original_ignored_is_disabled():
    given = {"use_cudnn_rnn": True, "encoder_emb_keep_prob": 0.4, "recurrent_keep_prob": 0.7,
             "encoder_dp_input_keep_prob": 1.0}
    sections, lines = filled(base_params={"encoder": "LMEncoder", "encoder_params": given})
    assert sections["base_params"]["encoder_params"] == {**given, "recurrent_keep_prob": 1.0}
    assert lines == ["encoder_params/recurrent_keep_prob: 1.0 (that of the config was ignored)"]
    used = {"encoder": "LMEncoder", "encoder_params": {**given, "use_cudnn_rnn": False, "recurrent_keep_prob": 0.7}}
    assert filled(base_params=used) == ({"base_params": used}, [])


@pytest.mark.parametrize("policy", [poly_decay, "cosine_decay"])
@pytest.mark.parametrize(("given", "changes"), [
    ({"decay_steps": 9, "warmup_steps": 3}, True), ({"decay_steps": 9, "warmup_steps": 3, "begin_decay_at": 2}, True),
    ({"decay_steps": 9, "warmup_steps": 3, "begin_decay_at": 3}, False), ({"warmup_steps": 3}, False),
    ({"decay_steps": 9}, False), ({"decay_steps": 9, "warmup_steps": 3, "decay_in_warmup": False}, False)])
def test_the_decay_begins_in_the_warm_up(policy: Any, given: dict[str, Any], changes: bool):
    sections, lines = filled(base_params={"lr_policy": policy, "lr_policy_params": given})
    assert sections["base_params"]["lr_policy_params"] == {**given, **({"decay_in_warmup": True} if changes else {})}
    assert lines == ["lr_policy_params/decay_in_warmup: True"] * changes


@pytest.mark.parametrize("given", [{"original_defaults": False}, {"original_defaults": 0}, {}])
def test_todays_defaults_can_be_chosen(given: dict[str, Any]):
    encoder = {"encoder": "TDNNEncoder", **given}
    overrides = () if given else parse_overrides(["--original_defaults=False"])
    assert filled(overrides, base_params=encoder) == ({"base_params": encoder}, [])


def test_sections_without_dicts_are_left_to_the_checks():
    params = {"encoder": "TDNNEncoder", "encoder_params": None, "decoder_params": None,
              "decoder": "JointCTCAttentionDecoder"}
    assert filled(base_params=params) == ({"base_params": params}, [])


def test_evaluation_reads_the_texts_of_training():
    layer = {"data_layer": "WKTDataLayer"}
    sections, lines = filled(train_params={**layer, "data_layer_params": {"data_root": "texts", "normalize": False}},
                             eval_params={**layer, "data_layer_params": {"normalize": False}})
    assert sections["eval_params"]["data_layer_params"] == {"data_root": "texts", "normalize": False}
    assert lines == ["data_layer_params/data_root: texts"]


def test_a_migrated_config_is_the_same_run(tmp_path: Path):
    (tmp_path / "old.py").write_text("""
from open_seq2seq.encoders import TDNNEncoder
base_model = "Speech2Text"
base_params = {"encoder": TDNNEncoder, "regularizer": tf.contrib.layers.l2_regularizer, "dtype": tf.float32,
               "encoder_params": {"activation_fn": lambda x: tf.minimum(tf.nn.relu(x), 20.0)}}
""")
    migrate_config([str(tmp_path / "old.py"), str(tmp_path / "new.yaml")])
    assert (tmp_path / "new.yaml").read_text().startswith(
        SCHEMA_LINE + "# From old.py, a config of NVIDIA's OpenSeq2Seq.\n")
    config = load_config(tmp_path / "new.yaml")
    assert not config.old_names and config.base_model == "Speech2Text"
    assert config.sections == {"base_params": {
        "encoder": "TDNNEncoder", "regularizer": "l2_regularizer", "dtype": "float32",
        "encoder_params": {"activation_fn": "relu20", "use_conv_mask": False}}}


@pytest.mark.parametrize(("text", "name", "message"), [
    ("base_params = {'activation_fn': lambda x: x + 1}", "new.yaml", "lambda"), ("base_params = {}", "new.py", ".yaml"),
    ("base_params = {}", "old.yaml", "already exists")])
def test_what_cannot_be_migrated_is_refused(text: str, name: str, message: str, tmp_path: Path):
    (tmp_path / "old.py").write_text("base_model = 'Speech2Text'\n" + text)
    (tmp_path / "old.yaml").write_text("")
    with pytest.raises(UserError, match=message):
        migrate_config([str(tmp_path / "old.py"), str(tmp_path / name)])
    assert not (tmp_path / "new.yaml").exists()
