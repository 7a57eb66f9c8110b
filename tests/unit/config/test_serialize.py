import enum
import functools
import inspect
import operator
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.merge import same
from open_seq2seq.config.names import resolve_name
from open_seq2seq.config.overrides import parse_overrides
from open_seq2seq.config.params import Param
from open_seq2seq.config.resolve import Benchmark, resolve
from open_seq2seq.config.serialize import to_plain, to_yaml, unwritable
from open_seq2seq.config.user_code import untrusted
from open_seq2seq.config.yaml_text import load_yaml
from open_seq2seq.optimizers import l2_regularizer
from open_seq2seq.parts.initializers import make_named
from open_seq2seq.runners import Runner
from open_seq2seq.utils.errors import nearest_name


@pytest.fixture(autouse=True)
def path_restored(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))


class Color(enum.IntEnum):
    RED = 3


class Quarters(tf.keras.initializers.Initializer):
    def __init__(self, count):
        self.count = count

    def __call__(self, shape, dtype=None):
        return tf.fill(shape, self.count / 4)

    def get_config(self):
        return {"count": self.count}


@pytest.mark.parametrize(("value", "plain"), [
    (tf.float32, "float32"), (np.dtype("int32"), "int32"), (np.float32(0.5), 0.5), (np.int64(3), 3),
    (np.array([[1, 2]]), [[1, 2]]), ((1, (2,)), [1, [2]]), ({"b"}, ["b"]), (Path("a/b"), "a/b"), (Color.RED, 3),
    (np.bool_(True), True), (np.str_("x"), "x"),
    (tf.nn.relu, "tf.nn.relu"), (tf.tanh, "tf.nn.tanh"), (tf.keras.layers.LSTMCell, "tf.keras.layers.LSTMCell"),
    (Param, "open_seq2seq.config.params.Param"), (Runner, "Runner"),
    (nearest_name, "open_seq2seq.utils.errors.nearest_name"), (dict, "dict"), (os.path.join, "posixpath.join"),
    ({"initializer": tf.keras.initializers.GlorotUniform}, {"initializer": "GlorotUniform"}),
    ({"regularizer": tf.keras.regularizers.L2(0.25), "regularizer_params": {}},
     {"regularizer": "L2", "regularizer_params": {"l2": 0.25}}),
])
def test_plain_values(value, plain):
    result = to_plain(value)
    assert result == plain
    assert load_yaml(to_yaml(result)) == plain


@pytest.mark.parametrize("value", [
    "None", "null", "1e-3", "1", "True", "no", "", " x", "a: b", "ü", "line\nbreak", "2020-01-01", "1:30", "~",
    1e-30, 1e22, 0.1, -2, None, True, [], {}, [[1, [2]], {"a": [None]}], float("inf"),
])
def test_yaml_keeps_value_and_type(value):
    again = load_yaml(to_yaml({"key": value}))["key"]
    assert again == value and type(again) is type(value)


@pytest.mark.parametrize("made", [
    tf.random_uniform_initializer(-1.0, 1.0, seed=3), tf.constant_initializer(0.5), tf.zeros_initializer(),
    tf.compat.v1.truncated_normal_initializer(stddev=0.25, seed=1), tf.compat.v1.initializers.he_normal(seed=2),
    tf.compat.v1.initializers.identity(gain=2.0), tf.keras.initializers.Orthogonal(seed=4), Quarters(3)],
    ids=lambda made: f"{type(made).__module__}.{type(made).__name__}")
def test_initialisers_that_are_objects_are_read_back_with_their_arguments(made):
    written = load_yaml(to_yaml({"initializer": made}))
    again = make_named(written["initializer"], written["initializer_params"], "initializer", "initializer")
    assert type(again) is type(made) and not unwritable({"base_params": {"initializer": made}})
    assert again.get_config() == made.get_config()


ROOMS = {"initializer": ("initializers", "keras.initializers", "compat.v1.initializers",
                         "compat.v1.keras.initializers"),
         "regularizer": ("keras.regularizers", "compat.v1.keras.regularizers"),
         "activation": ("keras.activations", "compat.v1.keras.activations")}


def exports(kind):
    """What TensorFlow and Keras export of a kind, by name; without base classes and functions that look up names."""
    modules = [operator.attrgetter(room)(tf) for room in ROOMS[kind]]
    members = {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in dir(module)}
    members |= {f"{room.__name__}.{name}": getattr(room, name) for room in (tf, tf.compat.v1) for name in dir(room)
                if name.endswith(f"_{kind}") and inspect.isclass(getattr(room, name))}
    return {name: value for name, value in members.items() if name.rpartition(".")[2] not in (
        "Initializer", "Regularizer", "deserialize", "get", "serialize")
        and (inspect.isclass(value) or callable(value) and kind != "initializer")}


def instance(cls):
    """An object of an exported class with an argument, if it takes a seed or a factor."""
    taken = inspect.signature(cls).parameters
    return cls(**{name: value for name, value in (("seed", 3), ("l2", 0.25), ("factor", 0.5)) if name in taken})


@pytest.mark.parametrize("kind", ROOMS)
def test_whatever_tensorflow_exports_is_read_back_from_a_logdir(kind):
    for name, value in exports(kind).items():
        made = instance(value) if inspect.isclass(value) else value
        assert not unwritable({"base_params": {kind: value}, "eval_params": {kind: made}}), name
        written, settings = (load_yaml(to_yaml({kind: given})) for given in (value, made))
        with untrusted("config.yaml"):
            assert resolve_name(written[kind], kind, kind) is value, name
            if made is not value:
                again = make_named(settings[kind], settings.get(f"{kind}_params", {}), kind, kind)
                assert type(again) is value and again.get_config() == made.get_config(), name


def square(x):
    return x * x


@pytest.mark.parametrize(("value", "what"), [
    (lambda x: x, "a lambda, which"), ((lambda: [lambda x: x])()[0], "'.*<locals>.<lambda>', which"),
    (functools.partial(square), "a functools.partial, whose arguments"),
    (functools.wraps(square)(lambda x: x + 1), "'square', which"), (l2_regularizer(0.1), "'l2_regularizer.<locals>"),
    (tf.keras.layers.ReLU(6.0), "an object of the class ReLU"), (object(), "an object of the class object"),
    (tf.constant(1.0), "an object of the class EagerTensor")])
def test_values_that_a_saved_config_would_lose_are_named_with_their_keys(value, what):
    for place in ({"a": {"b": value}}, {"a": {"b": [1, value]}}):
        (problem,) = unwritable({"base_model": "M", "base_params": place, "eval_params": place})
        assert re.match(rf"'a/b(/1)?' is {what}.*: give .*\.$", problem)


def test_a_regularizer_that_does_not_tell_its_arguments_would_be_lost():
    class Without(tf.keras.regularizers.Regularizer):
        """Lacks the method get_config."""

    assert "an object of the class Without" in unwritable({"base_params": {"regularizer": Without()}})[0]


def test_everything_else_is_written():
    values = [None, True, 1.5, "x", np.arange(3), np.float32(1), tf.float16, Color.RED, Path("a"), {"b"}, tf.nn.relu,
              tf.tanh, tf.nn.crelu, tf.keras.layers.LSTMCell, tf.keras.ops.relu, os.path.join, Runner, square, Color]
    assert not unwritable({"base_model": Param, "base_params": {"values": values, "initializer": tf.zeros_initializer}})


CONFIG = """
import shapes
class Mine: pass
def policy(step): return step
base_model = "Text2Text"
base_params = {"logdir": "x", "num_epochs": 3, "eval_steps": 5, "dtype": tf.float32, "layers": [{"size": (1, 2)}],
               "encoder": Mine, "other": shapes.Shape, "lr_policy": policy, "act": lambda x: x,
               "decoder_params": {"a": 1, "b": 2e-5}}
train_params = {"decoder_params": {"a": 2}, "shuffle": True}
eval_params = {"layers": [3]}
infer_params = {"decoder_params": {"c": None}}
"""


def test_resolved_config_loads_back_the_same(tmp_path):
    (tmp_path / "shapes.py").write_text("class Shape: pass\n")
    path = tmp_path / "config.py"
    path.write_text(CONFIG)
    overrides = parse_overrides(["--decoder_params/b=7", "--eval_params/extra=[1, a]", "--new/key=1e-3"])
    config = resolve(load_config(path), "train_eval", overrides)
    plain = {s: to_plain(config.params(s)) for s in ("train", "eval", "infer")}
    assert plain["train"]["encoder"] == f"{path}:Mine" and plain["train"]["lr_policy"] == f"{path}:policy"
    assert plain["train"]["other"] == f"{tmp_path / 'shapes.py'}:Shape"
    assert plain["train"]["act"] == f"{path}:<lambda> (line 7)"
    (tmp_path / "config.yaml").write_text(to_yaml(config.as_sections()))
    # Reading the saved config needs nothing of the old one.
    path.unlink()
    again = resolve(load_config(tmp_path / "config.yaml"), "train_eval")
    for section, params in plain.items():
        assert same(again.params(section), params)
    assert again.base_model == "Text2Text"


def test_classes_of_several_configs_keep_their_files(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.py").write_text("class Mine: pass\nbase_model = Mine\nbase_params = {}\n")
    models = [load_config(tmp_path / f"{name}.py").base_model for name in "aba"]
    assert [to_plain(model) for model in models] == [f"{tmp_path}/{name}.py:Mine" for name in "aba"]


def test_benchmark_loads_back_the_same(tmp_path):
    (tmp_path / "c.py").write_text("base_model = 'M'\nbase_params = {'num_epochs': 3, 'logdir': 'x'}\n")
    config = resolve(load_config(tmp_path / "c.py"), "train", benchmark=Benchmark(15))
    (tmp_path / "c.yaml").write_text(to_yaml(config.as_sections()))
    assert resolve(load_config(tmp_path / "c.yaml"), "train").params("train") == config.params("train")
