import math

import pytest

from open_seq2seq.config.params import (
    CheckedParams,
    Param,
    as_params,
    check_arguments,
    check_params,
    check_value,
    coerce,
    describe_range,
    describe_type,
)
from open_seq2seq.utils.errors import ConfigError


@pytest.mark.parametrize(("value", "spec", "expected"), [
    (1, float, 1.0), ("1e-3", float, 1e-3), ("12", int, 12), (1e5, int, 100000), ("1e5", int, 100000),
    (1e5, (int, float), 1e5), ("2", (int, float), 2), (None, (int, type(None)), None), (None, Param(int), None),
    ("x", ["x", "y"], "x"), (True, bool, True), ([1], list, [1]), (len, (callable,), len), ("1.5", str, "1.5"),
])
def test_values_that_fit(value, spec, expected):
    fitted, fits = coerce(value, as_params({"x": spec})["x"])
    assert fits
    assert fitted == expected and type(fitted) is type(expected)


@pytest.mark.parametrize(("value", "spec"), [
    (1.5, int), ("1.5", int), ("nan", int), ("inf", int), (True, int), (True, float), (1, bool), ("z", ["x", "y"]),
    (None, int), (None, ["x"]), ("text", float), (1, str), ({}, list),
])
def test_values_that_do_not_fit(value, spec):
    assert coerce(value, as_params({"x": spec})["x"]) == (value, False)


def test_all_problems_are_collected_with_paths():
    required = {"size": int, "kind": ["a", "b"]}
    optional = {"rate": Param(float, 0.5), "more": Param(dict, {})}
    checked, problems = check_params({"siz": 1, "kind": "c", "rate": "fast"}, required, optional, "encoder_params")
    assert len(problems) == 4
    for text in ("'encoder_params/siz'. Did you mean 'size'?", "'encoder_params/kind' is 'c'", "one of 'a', 'b'",
                 "'encoder_params/rate' is 'fast'", "'encoder_params/size' is missing"):
        assert any(text in problem for problem in problems)
    assert checked["more"] == {}


def test_defaults_are_not_shared():
    optional = {"more": Param(dict, {})}
    first, _ = check_params({}, {}, optional)
    first["more"]["x"] = 1
    assert check_params({}, {}, optional)[0]["more"] == {}


def test_types_in_words():
    assert describe_type(Param((int, type(None)))) == "int or None"
    assert describe_type(Param(["a", 1])) == "one of 'a', 1"


@pytest.mark.parametrize(("spec", "good", "bad", "words"), [
    (Param(int, minimum=1), [1, 7, 1e5], [0, -1, 10**21, 1e30], "at least 1"),
    (Param((int, type(None)), minimum=1), [None, 1], [0], "at least 1"),
    (Param(float, above=0.0), [1e-30, 5], [0, -1.0, math.nan, math.inf, 1e39], "above 0"),
    (Param(float, minimum=0.0, below=1.0), [0, 0.999], [1, 1.0, -1e-9], "at least 0 and below 1"),
    (Param(float, minimum=0, maximum=1), [0, 1], [2, "nan"], "from 0 to 1"),
    (Param(float, minimum=0.0, maximum=math.inf), [math.inf, "inf"], [-math.inf, math.nan, -1], "at least 0"),
    (Param((int, list), minimum=1), [3, [1, 2]], [0, [1, 0], [[-1]], [math.nan]], "at least 1"),
    (Param(float), [-1e38], [math.nan, -math.inf, 1e300, 10**400], ""),
    (Param(list), [[1.0, {"checked": math.nan}], [{}]], [[math.inf], [[1, math.nan]], ["\0"]], ""),
    (Param((str, float), minimum=1), ["-1 apples", "", 2.0], ["a\0b", 0.5], "at least 1"),
    (Param((bool, int), minimum=2), [True, 2], [1], "at least 2"),
])
def test_ranges(spec, good, bad, words):
    assert describe_range(spec) == words
    for value in good:
        assert not check_value(value, spec, "a/b")[1], value
    for value in bad:
        problem = check_value(value, spec, "a/b")[1]
        assert problem.startswith("'a/b' is ") and problem.count(".") >= 1 and problem.endswith("."), value


def test_arguments_of_what_declares_none_are_finite():
    assert not check_arguments({"scale": 1.0, "mode": "fan_in", "nested": {"x": math.inf}}, "initializer_params")
    assert check_arguments({"scale": math.nan, "mode": "a\0"}, "initializer_params") == [
        "'initializer_params/scale' is nan but has to be a number.",
        "'initializer_params/mode' is 'a\\x00' but has to be text without the character NUL."]


def test_messages_say_path_value_and_range():
    assert check_params({"rate": -1}, {}, {"rate": Param(float, 0.5, minimum=0.0, below=1.0)}, "encoder_params")[1] == [
        "'encoder_params/rate' is -1 but has to be at least 0 and below 1."]
    assert check_value("x" * 10**6, Param(int), "size")[1].startswith("'size' is 'xxx")
    assert len(check_value("x" * 10**6, Param(int), "size")[1]) < 300


def test_a_required_parameter_is_none_only_where_its_type_says_so():
    required = {"size": Param(int, doc="No default."), "path": Param((str, type(None)))}
    assert check_params({"size": None, "path": None}, required, {})[1] == ["'size' is None but has to be int."]
    assert not check_params({"size": None}, {}, {"size": Param(int)})[1]


def test_names_of_arguments_are_text():
    problems = check_params({"optimizer_params": {1: 2}}, {}, {"optimizer_params": Param(dict, {})})[1]
    assert problems == ["'optimizer_params' is {1: 2} but has to be a dict whose keys are strings."]


def test_the_word_none_can_be_an_allowed_value():
    assert check_value(None, Param(["image", "none"]), "p") == ("none", "")
    assert check_value(None, Param(["image", "none", None]), "p") == (None, "")
    assert "has to be" in check_value(None, Param(["image", "other"], "image"), "p")[1]


def test_checked_parameters_are_copied_but_not_changed():
    params = CheckedParams({"a": 1, "b": 2}, "encoder_params")
    assert params.copy() == {"a": 1, "b": 2} and params | {"b": 3} == {"a": 1, "b": 3} and {"b": 3} | params == params
    for change in (lambda: params.update(a=2), lambda: params.update({"a": 2}), params.clear, params.popitem,
                   lambda: params.pop("a"), lambda: params.setdefault("c", 0)):
        with pytest.raises(ConfigError, match="self.params must not be changed, but 'encoder_params"):
            change()
    assert dict(params) == {"a": 1, "b": 2}
