"""Configs of NVIDIA's OpenSeq2Seq, which name classes and functions of TensorFlow 1."""

from __future__ import annotations

import importlib
import textwrap
from pathlib import Path

import pytest
import tensorflow as tf

import open_seq2seq.models  # noqa: F401  # registers all kinds of names
from open_seq2seq.config.loader import ConfigFile, load_config
from open_seq2seq.config.names import resolve_name
from open_seq2seq.config.old_names import IMPORTS, NAMES
from open_seq2seq.encoders import TDNNEncoder
from open_seq2seq.parts.rnn.core_cells import WeightDropLayerNormBasicLSTMCell

KINDS = {"initializer": "initializer", "regularizer": "regularizer", "Cell": "cell", "Cudnn": "cell",
         "Optimizer": "optimizer", "decay": "lr_policy"}


def loaded(folder: Path, text: str) -> ConfigFile:
    path = folder / "config.py"
    path.write_text("base_model = 'Text2Text'\n" + textwrap.dedent(text))
    return load_config(path)


def value_of(folder: Path, expression: str, imports: str = "") -> object:
    config = loaded(folder, f"{imports}\nbase_params = {{'x': {expression}}}\n")
    return config.sections["base_params"]["x"]


@pytest.mark.parametrize("name", NAMES)
def test_each_name_becomes_one_that_a_yaml_config_can_give(name: str, tmp_path: Path):
    value = value_of(tmp_path, name)
    kind = next((kind for part, kind in KINDS.items() if part in name), None)
    if kind is None:  # layers of a CNNEncoder, which are not resolved by kind
        assert name.startswith("tf.layers.")
        assert value == name.rpartition(".")[2]
    else:
        assert callable(resolve_name(value, kind, "x"))
    with pytest.raises(AttributeError):  # a name that TensorFlow 2 has is not an old name
        eval(name, {"tf": tf})


@pytest.mark.parametrize("name", IMPORTS)
def test_each_import_gives_the_class_of_today(name: str, tmp_path: Path):
    module, _, old = name.rpartition(".")
    value = value_of(tmp_path, "Here", f"from {module} import {old} as Here")
    today, new = IMPORTS[name]
    assert value is getattr(importlib.import_module(today), new)


def test_a_module_is_imported_with_old_and_new_names(tmp_path: Path):
    text = """
        from tensorflow.contrib.layers import l2_regularizer
        from open_seq2seq.encoders import TransformerEncoder, Wave2LetterEncoder
        from open_seq2seq.optimizers.lr_policies import *
        from open_seq2seq.parts.rnns.weight_drop import WeightDropLayerNormBasicLSTMCell
        import tensorflow
        base_params = {"encoder": Wave2LetterEncoder, "cell": WeightDropLayerNormBasicLSTMCell,
                       "regularizer": l2_regularizer, "policy": poly_decay, "other": TransformerEncoder,
                       "nested": [(tensorflow.layers.conv2d, {"activation": tf.nn.relu})]}
        """
    params = loaded(tmp_path, text).sections["base_params"]
    assert params["encoder"] is TDNNEncoder
    assert params["cell"] is WeightDropLayerNormBasicLSTMCell
    assert params["regularizer"] == "l2_regularizer"
    assert params["nested"] == [("conv2d", {"activation": tf.nn.relu})]
    assert {params["policy"].__name__, params["other"].__name__} == {"poly_decay", "TransformerEncoder"}


def test_a_config_without_old_names_is_not_one_of_the_original(tmp_path: Path):
    assert loaded(tmp_path, "base_params = {'a': tf.layers.dense, 'b': tf.layers.dense}").old_names == (
        "tf.layers.dense",)
    assert not loaded(tmp_path, "base_params = {'a': tf.nn.relu, 'b': 'tf.layers.dense'}  # tf.layers.dense").old_names


def test_old_names_in_a_base(tmp_path: Path):
    (tmp_path / "base.py").write_text("rate = 0.1\nbase_model = 'Text2Text'\n"
                                      "base_params = {'regularizer': tf.contrib.layers.l2_regularizer, 'a': rate}\n")
    (tmp_path / "variant.py").write_text("base_config = 'base.py'\nrate = 0.2\nbase_params = {'b': 1}\n")
    config = load_config(tmp_path / "variant.py")
    assert config.old_names == ("tf.contrib.layers.l2_regularizer",)
    assert config.sections["base_params"] == {"regularizer": "l2_regularizer", "a": 0.2, "b": 1}


def test_another_tensorflow_is_not_the_first(tmp_path: Path):
    config = loaded(tmp_path, "import tensorflow.compat.v1 as tf\n"
                    "base_params = {'x': tf.glorot_uniform_initializer}")
    assert not config.old_names and config.sections["base_params"]["x"] is tf.compat.v1.glorot_uniform_initializer
