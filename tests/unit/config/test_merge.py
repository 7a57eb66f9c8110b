import random

import pytest

from open_seq2seq.config.merge import copy_nested, difference, merge_params, same, size_problem


def test_dicts_merge_and_other_values_replace():
    base = {"a": 1, "list": [1, 2], "sub": {"x": 1, "deep": {"y": 2}}, "none": None}
    section = {"a": 2, "list": [3], "sub": {"deep": {"z": 3}}, "none": {"k": 1}, "new": {"n": 1}}
    merged, problems = merge_params(base, section)
    assert problems == []
    assert merged == {"a": 2, "list": [3], "sub": {"x": 1, "deep": {"y": 2, "z": 3}}, "none": {"k": 1},
                      "new": {"n": 1}}


def test_inputs_stay_as_they_are():
    base, section = {"sub": {"x": [1]}}, {"sub": {"y": [2]}}
    merged, _ = merge_params(base, section)
    merged["sub"]["x"].append(5)
    merged["sub"]["y"].append(5)
    assert base == {"sub": {"x": [1]}} and section == {"sub": {"y": [2]}}


@pytest.mark.parametrize(("base", "section"), [
    ({"a": 1}, {"a": {"b": 1}}), ({"a": {"b": 1}}, {"a": 1}), ({"a": {"b": 1}}, {"a": [1]}),
    ({"a": "text"}, {"a": {}}),
])
def test_mismatch_is_reported_with_its_path(base, section):
    merged, problems = merge_params({"top": base}, {"top": section}, "eval_params")
    assert len(problems) == 1
    assert "'eval_params/top/a'" in problems[0]
    assert merged == {"top": base}


def test_none_switches_a_dict_off():
    assert merge_params({"larc_params": {"larc_eta": 1}}, {"larc_params": None}) == ({"larc_params": None}, [])


def test_objects_are_not_copied():
    hook = object()
    copied = copy_nested({"hooks": [hook], "t": (hook, {"k": hook})})
    assert copied["hooks"][0] is hook and copied["t"][1]["k"] is hook


def random_params(rng: random.Random, depth: int) -> dict:
    values = [lambda: rng.randrange(3), lambda: rng.choice("xy"), lambda: None, lambda: [rng.randrange(3)],
              lambda: rng.random() < 0.5]
    return {key: random_params(rng, depth - 1) if depth and key in "de" else rng.choice(values)()
            for key in "abcde" if rng.random() < 0.7}


@pytest.mark.parametrize("seed", range(30))
def test_difference_undoes_merge(seed):
    rng = random.Random(seed)
    base, section = random_params(rng, 2), random_params(rng, 2)
    merged, problems = merge_params(base, section)
    if not problems:
        again, problems = merge_params(base, difference(base, merged))
        assert problems == [] and same(again, merged)
        assert difference(merged, merged) == {}


def test_numbers_of_other_types_differ():
    assert not same(1, True) and not same(1, 1.0) and same([1, {"a": "b"}], [1, {"a": "b"}])


def test_values_without_end():
    itself: dict = {"a": [1]}
    itself["b"] = (itself,)
    grown = [0]
    for _ in range(40):
        grown = [grown, grown]
    assert "contains itself" in size_problem(itself)
    assert "1,000,000 values" in size_problem(grown)
    assert size_problem({"a": [{"b": (1, "text")}] * 1000}) == ""


def test_a_section_can_drop_a_key():
    base = {"a": 1, "sub": {"x": 1, "y": 2}}
    assert merge_params(base, {"a": "<drop>", "sub": {"x": "<drop>"}, "b": "<drop>"}) == ({"sub": {"y": 2}}, [])
    assert difference(base, {"sub": {"y": 2}}) == {"a": "<drop>", "sub": {"x": "<drop>"}}
