import pytest

from open_seq2seq.config.overrides import Override, apply_overrides, overrides_of, parse_overrides, parse_value
from open_seq2seq.utils.errors import ConfigError


@pytest.mark.parametrize(("text", "value"), [
    ("1", 1), ("-1", -1), ("1e-3", 1e-3), (".5", 0.5), ("2.", 2.0), ("True", True), ("false", False), ("None", None),
    ("null", None), ("[1, 2]", [1, 2]), ("(1, 2)", [1, 2]), ("[a.csv,b.csv]", ["a.csv", "b.csv"]),
    ("{a: 1e-3}", {"a": 1e-3}), ("{'a': [True, None]}", {"a": [True, None]}), ("'7'", "7"), ('"None"', "None"),
    ("text", "text"), ("", ""), ("a/b=c", "a/b=c"), ("1,2", "1,2"), ("tf.float32", "tf.float32"), ("012", "012"),
    ("[unclosed", "[unclosed"), ("1+2", "1+2"), ("no", "no"), ("2020-01-01", "2020-01-01"), ("1:30", "1:30"),
    ("__import__('os')", "__import__('os')"), (" x ", " x "),
    ("[!!bool maybe]", "[!!bool maybe]"), ("{a: !!int ''}", "{a: !!int ''}"), ("{[1]: 2}", "{[1]: 2}"),
])
def test_values(text, value):
    parsed = parse_value(text)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(("text", "old", "value"), [
    ("123", "name", "123"), ("True", "name", "True"), ("None", "name", None), ("1e-3", 2, 1e-3), ("1e5", 2, 100000),
    ("1", True, True), ("0", True, False), ("3", True, 3), ("2", 1.5, 2), ("mixed", "float32", "mixed"),
    ("5", None, 5), ("[a]", "x", ["a"]),
])
def test_values_fit_what_they_replace(text, old, value):
    params, problems = apply_overrides({"a": old}, parse_overrides([f"--a={text}"]), [])
    assert not problems and params["a"] == value and type(params["a"]) is type(value)


def test_values_from_python_are_used_as_they_are():
    overrides = overrides_of({"a/b": "1", "eval_params/x": [2], "base_params/y": None, "d": {"n": 3}})
    assert overrides == [Override(None, ("a", "b"), "1"), Override("eval_params", ("x",), [2]),
                         Override(None, ("y",), None), Override(None, ("d",), {"n": 3})]
    params, problems = apply_overrides({"a": {"b": 0}, "d": {"m": 1}}, overrides, ["eval_params"])
    assert not problems and params == {"a": {"b": "1"}, "x": [2], "y": None, "d": {"m": 1, "n": 3}}
    with pytest.raises(ConfigError, match="not the path of a parameter"):
        overrides_of({"eval_params": {"x": 1}})


def test_forms_of_arguments():
    assert parse_overrides(["--a/b=c=d", "--n", "-1", "--eval_params/x=1", "--base_params/y=2", "--e="]) == [
        Override(None, ("a", "b"), "c=d", "c=d"), Override(None, ("n",), -1, "-1"),
        Override("eval_params", ("x",), 1, "1"), Override(None, ("y",), 2, "2"), Override(None, ("e",), "", "")]
    folders = ["--logdir=2024", "--train_params/logdir=2024", "--load_model=2024", "--logdir=None", "--logdir=[a, b]"]
    assert [one.value for one in parse_overrides(folders)] == ["2024", "2024", "2024", None, ["a", "b"]]


@pytest.mark.parametrize(("arguments", "text"), [
    (["stray"], "'stray' is not understood"), (["-x", "1"], "'-x' is not understood"),
    (["--a"], "'--a' needs a value"), (["--a", "--b=1"], "'--a' needs a value"), (["--=1"], "not understood"),
    (["--a//b=1"], "empty part"), (["--a/=1"], "empty part"), (["--train_params=1"], "names a whole section"),
    (["--" + "a/" * 50 + "b=1"], "has 51 levels"), (["--mod"], "Did you mean '--mode'?"),
])
def test_bad_arguments(arguments, text):
    with pytest.raises(ConfigError, match=None) as caught:
        parse_overrides(arguments, ["--mode"])
    assert text in caught.value.problems[0]


def test_bad_arguments_are_collected():
    with pytest.raises(ConfigError) as caught:
        parse_overrides(["stray", "--a//b=1", "--fine=1", "--c"])
    assert len(caught.value.problems) == 3


def apply(params, *arguments, sections=("train_params",)):
    return apply_overrides(params, parse_overrides(arguments), sections)


def test_sections():
    arguments = ["--a=1", "--eval_params/a=2", "--train_params/b/c=3"]
    assert apply({}, *arguments) == ({"a": 1, "b": {"c": 3}}, [])
    assert apply({}, *arguments, sections=("eval_params",)) == ({"a": 2}, [])


def test_later_wins_and_input_is_untouched():
    params = {"a": {"b": 1}}
    assert apply(params, "--a/b=2", "--a/b=3", "--a/c=x") == ({"a": {"b": 3, "c": "x"}}, [])
    assert params == {"a": {"b": 1}}


def test_dicts_merge_and_none_replaces():
    assert apply({"a": {"b": 1}}, "--a={c: 2}")[0] == {"a": {"b": 1, "c": 2}}
    assert apply({"a": {"b": 1}}, "--a=None")[0] == {"a": None}
    assert apply({"a": None}, "--a/b=1")[0] == {"a": {"b": 1}}


@pytest.mark.parametrize(("params", "argument", "text"), [
    ({"a": 1}, "--a/b=1", "because 'a' is 1, not a dict"),
    ({"a": {"b": [1]}}, "--a/b/0=1", "'a/b' is [1]"),
    ({"a": {"b": 1}}, "--a=5", "give --a/key=value"),
    ({"a": {"b": 1}}, "--a={b: {c: 1}}", "'--a/b'"),
])
def test_impossible_overrides(params, argument, text):
    result, problems = apply(params, argument)
    assert len(problems) == 1 and text in problems[0]
    assert result == params


def test_values_that_no_config_can_hold():
    params, problems = apply({}, "--train_params/a=" + "[" * 60 + "]" * 60)
    assert params == {} and problems == ["'--train_params/a' contains itself or has more than 50 levels of nesting."]
