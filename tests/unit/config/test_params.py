import pytest

from open_seq2seq.config.params import Param, check_params, coerce, describe_type


@pytest.mark.parametrize(("value", "spec", "expected"), [
    (1, float, 1.0), ("1e-3", float, 1e-3), ("12", int, 12), (1e5, int, 100000), ("1e5", int, 100000),
    (1e5, (int, float), 1e5), ("2", (int, float), 2), (None, (int, type(None)), None), (None, Param(int), None),
    ("x", ["x", "y"], "x"), (True, bool, True), ([1], list, [1]), (len, (callable,), len), ("1.5", str, "1.5"),
])
def test_values_that_fit(value, spec, expected):
    fitted, fits = coerce(value, spec)
    assert fits
    assert fitted == expected and type(fitted) is type(expected)


@pytest.mark.parametrize(("value", "spec"), [
    (1.5, int), ("1.5", int), ("nan", int), ("inf", int), (True, int), (True, float), (1, bool), ("z", ["x", "y"]),
    (None, int), (None, ["x"]), ("text", float), (1, str), ({}, list),
])
def test_values_that_do_not_fit(value, spec):
    assert coerce(value, spec) == (value, False)


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
    assert describe_type(["a", 1]) == "one of 'a', 1"
