"""Names in configs: what is written is found again, and what names nothing is refused in one sentence."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq import data, decoders, encoders, losses, models, optimizers
from open_seq2seq.config.loader import load_config
from open_seq2seq.config.names import resolve_name, resolve_names
from open_seq2seq.config.serialize import to_plain, to_yaml
from open_seq2seq.config.user_code import untrusted
from open_seq2seq.config.yaml_text import load_yaml
from open_seq2seq.decoders import Decoder, JointCTCAttentionDecoder, TransformerDecoder
from open_seq2seq.encoders import Encoder
from open_seq2seq.models.part import Part
from open_seq2seq.optimizers.loss_scaling import named_scaler
from open_seq2seq.optimizers.lr_policies import POLICIES
from open_seq2seq.optimizers.registry import OPTIMIZERS
from open_seq2seq.parts.activations import NAMES
from open_seq2seq.training import hooks
from open_seq2seq.utils.errors import ConfigError

OWN = """
from open_seq2seq.encoders import Encoder
from open_seq2seq.optimizers import Optimizer
from open_seq2seq.training.hooks import Hook

class Mine(Encoder):
    class Inner(Encoder):
        pass

class Rule(Optimizer): pass
class Watch(Hook): pass
def square(x): return x * x
"""


X = tf.constant([[-0.9, -0.5], [0.25, 0.75]])


def is_elementwise(function):
    if not inspect.isfunction(function):
        return False
    try:
        whole = function(X)
        parts = [function(part) for part in tf.split(X, 2)]
        return whole.dtype == X.dtype and whole.shape == X.shape and bool(np.allclose(
            whole, tf.concat(parts, 0), equal_nan=True)) and function([[0.5]]).shape == [1, 1] and function(
                [0.5] * 3).shape == [3]
    except Exception:  # it needs other arguments
        return False


def rooms():
    for room, kind, base in ((encoders, "encoder", Encoder), (decoders, "decoder", Decoder),
                             (losses, "loss", losses.Loss), (models, "model", models.Model),
                             (data, "data_layer", data.DataLayer)):
        for name in room.__all__:
            if inspect.isclass(getattr(room, name)) and issubclass(getattr(room, name), base):
                yield getattr(room, name), kind
    yield from ((cls, "optimizer") for cls in OPTIMIZERS.values())
    yield from ((function, "lr_policy") for function in POLICIES.values())
    yield from ((function, "regularizer") for function in (optimizers.l1_regularizer, optimizers.l2_regularizer))
    yield from ((cls, "loss_scaler") for cls in (optimizers.BackoffScaler, optimizers.LogMaxScaler))
    yield from ((function, "activation") for function in NAMES.values())
    for kind, room in (("initializer", tf.keras.initializers), ("regularizer", tf.keras.regularizers),
                       ("optimizer", tf.keras.optimizers)):
        base = getattr(room, kind.capitalize())
        yield from ((value, kind) for value in vars(room).values()
                    if inspect.isclass(value) and issubclass(value, base) and value is not base)
    yield from ((value, "activation") for name, value in vars(tf.keras.activations).items()
                if inspect.isfunction(value) and name not in ("get", "serialize", "deserialize"))
    for room in (tf, tf.compat.v1, tf.compat.v1.initializers):  # those that are not Keras'
        yield from ((value, "initializer") for value in vars(room).values()
                    if inspect.isclass(value) and hasattr(value, "from_config") and callable(value))
    for room in (tf.nn, tf.math):
        yield from ((value, "activation") for value in vars(room).values() if is_elementwise(value))


EXPORTED = list(rooms())


def there_and_back(value, kind):
    """What is found by the name that a resolved config has for a value, below a key of the usual spelling."""
    written = load_yaml(to_yaml({kind: value, "nested": [{kind: value}]}))
    assert written[kind] == written["nested"][0][kind] and isinstance(written[kind], str)
    return resolve_name(written[kind], kind, kind)


@pytest.mark.parametrize("kind", sorted({kind for _, kind in EXPORTED}))
@pytest.mark.parametrize("config", [None, "config.yaml"], ids=["trusted", "untrusted"])
def test_everything_exported_is_found_by_the_name_that_configs_are_written_with(kind, config):
    with untrusted(config):
        for value in (value for value, kind_of_value in EXPORTED if kind_of_value == kind):
            assert there_and_back(value, kind) is value
            if value.__module__.startswith("open_seq2seq"):
                assert resolve_name(f"{value.__module__}.{value.__qualname__}", kind, kind) is value


def test_there_is_something_of_every_kind():
    assert {kind for _, kind in EXPORTED} == {"encoder", "decoder", "loss", "model", "data_layer", "optimizer",
                                              "lr_policy", "regularizer", "loss_scaler", "activation", "initializer"}
    assert len(EXPORTED) > 90


@pytest.mark.parametrize(("name", "kind"), [("Mine", "encoder"), ("Mine.Inner", "encoder"), ("Rule", "optimizer"),
                                            ("Watch", "hook"), ("square", "activation"), ("square", "lr_policy")])
def test_what_outside_files_hold_is_found_again(tmp_path, name, kind):
    for folder in ("a", "b"):  # two files of one name are two modules
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.py").write_text(OWN)
        value = resolve_name(f"{tmp_path}/{folder}/own.py:{name}", kind, kind)
        assert there_and_back(value, kind) is value
        assert to_plain(value) == f"{tmp_path}/{folder}/own.py:{name}"


def test_a_config_and_what_lies_beside_it_share_their_classes_with_those_who_name_them(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "also_own.py").write_text("from own import Mine\nclass More(Mine): pass\n")
    (tmp_path / "config.py").write_text(
        "from own import Mine\nfrom own import Encoder\nclass Here(Encoder): pass\nbase_model = 'Text2Text'\n"
        "base_params = {'encoder': Mine, 'other': {'encoder': Here}}\n")
    params = load_config(tmp_path / "config.py").sections["base_params"]
    assert there_and_back(params["encoder"], "encoder") is params["encoder"]
    assert there_and_back(params["other"]["encoder"], "encoder") is params["other"]["encoder"]
    more = resolve_name(f"{tmp_path}/also_own.py:More", "encoder", "encoder")
    assert issubclass(more, params["encoder"])


def test_a_file_may_hold_dataclasses_and_import_what_lies_beside_it(tmp_path):
    (tmp_path / "sizes_beside.py").write_text("SIZE = 3\n")
    (tmp_path / "own.py").write_text(
        "from __future__ import annotations\nimport dataclasses, typing\nimport sizes_beside\n"
        "from open_seq2seq.encoders import Encoder\n@dataclasses.dataclass\nclass Settings:\n"
        "    size: int = sizes_beside.SIZE\n    names: typing.ClassVar[list] = []\n"
        "class Mine(Encoder):\n    settings = Settings()\n")
    assert resolve_name(f"{tmp_path}/own.py:Mine", "encoder", "encoder").settings.size == 3


def test_a_file_of_a_package_may_import_its_neighbours(tmp_path):
    folder = tmp_path / "package_of_parts" / "inner"
    folder.mkdir(parents=True)
    for place in (folder, folder.parent):
        (place / "__init__.py").write_text("")
    (folder / "base.py").write_text(OWN)
    (folder / "plain.py").write_text("")
    (folder / "own.py").write_text("from .base import Mine\nimport plain\nclass More(Mine): pass\n")
    more = resolve_name(f"{folder}/own.py:More", "encoder", "encoder")
    assert more.__mro__[1] is resolve_name(f"{folder}/base.py:Mine", "encoder", "encoder")
    for value in more.__mro__[:2]:
        assert there_and_back(value, "encoder") is value and to_plain(value).startswith(str(folder))


def test_a_file_of_the_package_is_the_module_that_everybody_imports():
    assert resolve_name(f"{inspect.getfile(Encoder)}:Encoder", "encoder", "encoder") is Encoder


@pytest.mark.parametrize(("text", "kind", "expected"), [
    ("tf.keras.optimizers.Lion", "optimizer", "Lion"), ("keras.optimizers.Lion", "optimizer", "Lion"),
    ("tensorflow.keras.optimizers.Lion", "optimizer", "Lion"), ("tf.math.erf", "activation", "erf"),
    ("tf.math.cosh", "activation", "cosh"), ("glorot_uniform", "initializer", "GlorotUniform"),
    ("zero", "initializer", "Zeros"), ("l1l2", "regularizer", "L1L2"), ("mish", "activation", "mish"),
    ("open_seq2seq.encoders.TransformerEncoder", "encoder", "TransformerEncoder")])
def test_other_spellings(text, kind, expected):
    assert resolve_name(text, kind, kind).__name__ == expected


def test_bare_names_of_keras_are_those_that_keras_knows():
    for kind, room in (("initializer", tf.keras.initializers), ("regularizer", tf.keras.regularizers)):
        for name in ("GlorotUniform", "he_normal", "uniform", "normal", "one", "zero", "identity",
                     "L2", "l1", "l1l2", "OrthogonalRegularizer", "orthogonal"):
            try:
                known = type(room.get(name))
            except ValueError:
                continue
            assert resolve_name(name, kind, kind) is known


def test_things_that_are_no_names_stand_for_themselves():
    for value in (tf.keras.initializers.Ones(), functools.partial(tf.nn.leaky_relu, alpha=0.1), lambda x: x):
        assert resolve_name(value, "initializer", "initializer") is value


HOSTILE = ["../../etc/passwd", "1.5", "", "\u0000", "a..b", ".", ":", ".py:", "x.py:", "x.py:a..b", "\u0000.py:A",
           "no_such_thing", "no.such.thing", "nowhere/file.py:Thing", "/etc:Thing", "file.py:<lambda> (line 3)", "a b",
           "os.no_such", "open_seq2seq.encoders.Nothing", "tf.nn.no_such", "tf.keras.optimizers.Lyon", "a" * 10000,
           "a" * 10000 + ".py:A", "encoders.TransformerEncoder", "TransformerDecodr", "Ünïcode", "\n",
           "__import__('os')"]


@pytest.mark.parametrize("kind", ["encoder", "optimizer", "lr_policy", "hook", "initializer", "activation",
                                  "loss_scaler"])
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:20]))
def test_what_names_nothing_is_refused_with_its_place_in_one_sentence(text, kind):
    for config in (None, "/run/config.yaml"):
        with untrusted(config), pytest.raises(ConfigError) as caught:
            resolve_name(text, kind, "some/key")
        (problem,) = caught.value.problems
        assert problem.startswith(f"'some/key' is {text!r}")
        assert problem.endswith((".", "?"))


@pytest.mark.parametrize("value", [1.5, {}, [], object(), dict, TransformerDecoder, print])
def test_things_of_another_kind_are_refused(value):
    with pytest.raises(ConfigError, match="'encoder' is .* but has to be a subclass of Encoder"):
        resolve_name(value, "encoder", "encoder")


@pytest.mark.parametrize(("source", "expected"), [
    ("x = (\n", r"own\.py, line 1: '\(' was never closed"), ("\nx = 1 / 0\n", r"own\.py, line 2: ZeroDivisionError"),
    ("import sys\nsys.exit(3)\n", r"sys\.exit\(3\)"), ("import no_such_module_here\n", "ModuleNotFoundError"),
    ("Mime = 1\n", "has no Mine. Did you mean 'Mime'"), ("Mine = 1\n", "subclass of Encoder"), ("\0", "own.py")])
def test_files_that_fail_are_reported_with_their_line(tmp_path, source, expected):
    (tmp_path / "own.py").write_text(source)
    with pytest.raises(ConfigError, match=expected) as caught:
        resolve_name(f"{tmp_path}/own.py:Mine", "encoder", "encoder")
    assert str(caught.value).startswith("'encoder' is ") and len(caught.value.problems) == 1


def test_a_module_that_fails_is_reported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "failing_module_here.py").write_text("import not_there_at_all\n")
    with pytest.raises(ConfigError, match="'failing_module_here.Mine', which cannot be imported.*not_there"):
        resolve_name("failing_module_here.Mine", "encoder", "encoder")


@pytest.mark.parametrize(("text", "kind"), [
    ("os.system", "initializer"), ("subprocess.Popen", "initializer"), ("builtins.eval", "activation"),
    ("os.system", "hook"), ("runpy.run_path", "lr_policy"), ("tf.io.write_file", "activation"),
    ("tf.keras.models.load_model", "initializer"), ("tf.keras.utils.get_file", "regularizer"),
    ("tf.keras.initializers.deserialize", "initializer"), ("tf.keras.activations.get", "activation"),
    ("tf.py_function", "activation"), ("tf.keras.optimizers.get", "optimizer"),
    ("keras.src.utils.file_utils.os.system", "hook"),
    ("open_seq2seq.utils.launcher.end_all", "activation"), ("open_seq2seq.cli.main", "hook")])
def test_data_names_nothing_but_what_is_registered(text, kind):
    with untrusted("/run/config.yaml"), pytest.raises(ConfigError) as caught:
        resolve_name(text, kind, "key")
    (problem,) = caught.value.problems
    assert problem.startswith(f"'key' is '{text}'") and "--trust_code" in problem and "/run/config.yaml" in problem


def test_nothing_of_a_refused_file_or_module_runs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "marking_module.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\n" + OWN)
    for text in (f"{tmp_path}/marking_module.py:Mine", "marking_module.Mine"):
        with untrusted("config.yaml"), pytest.raises(ConfigError, match="trust_code"):
            resolve_name(text, "encoder", "encoder")
    with untrusted("config.yaml"), pytest.raises(ConfigError, match="trust_code"):
        load_config(tmp_path / "marking_module.py")
    assert not (tmp_path / "marker").exists()
    resolve_name(f"{tmp_path}/marking_module.py:Mine", "encoder", "encoder")
    assert (tmp_path / "marker").exists()
    with untrusted("config.yaml"), pytest.raises(ConfigError, match="trust_code"):  # though it has run already
        resolve_name(f"{tmp_path}/marking_module.py:Mine", "encoder", "encoder")


def test_names_of_parts_inside_parts_are_resolved():
    required, optional = JointCTCAttentionDecoder.declared_params()
    given = {"ctc_decoder": "FullyConnectedCTCDecoder", "ctc_decoder_params": {"initializer": "os.sistem"},
             "attn_decoder": "TransformerEncoder", "initializer": "GlorotNormal"}
    params, problems = resolve_names(given, {**optional, **required}, "decoder_params")
    assert params["ctc_decoder"] is decoders.FullyConnectedCTCDecoder
    assert params["initializer"] is tf.keras.initializers.GlorotNormal and given["initializer"] == "GlorotNormal"
    assert [problem.partition(" is ")[0] for problem in problems] == [
        "'decoder_params/ctc_decoder_params/initializer'", "'decoder_params/attn_decoder'"]


@pytest.mark.parametrize("value", [hooks.Hook, functools.partial(hooks.Hook), f"{hooks.__name__}.Hook"])
def test_hooks_are_classes_or_their_names(value):
    assert callable(resolve_name(value, "hook", "hooks/0"))


@pytest.mark.parametrize("value", [Encoder, dict, "open_seq2seq.encoders.Encoder", 1.5, None])
def test_hooks_that_lack_methods_are_refused(value):
    with pytest.raises(ConfigError, match=r"'hooks/0' is .* begin\(trainer\), after_step"):
        resolve_name(value, "hook", "hooks/0")


@pytest.mark.parametrize(("given", "expected"), [
    ("backoff", optimizers.BackoffScaler), ("LOGMAX", optimizers.LogMaxScaler), ("8.0", "8.0"), (8.0, 8.0),
    (None, None),
    ("open_seq2seq.optimizers.loss_scaling.StaticScaler", optimizers.StaticScaler)])
def test_loss_scalers(given, expected):
    assert named_scaler(given) is expected or named_scaler(given) == expected


def test_a_part_knows_what_its_strings_name():
    class Narrow(Encoder):
        pass

    assert (Part(Narrow).kind, Part(data.DataLayer).kind, Part(dict).kind) == ("encoder", "data_layer", "")
