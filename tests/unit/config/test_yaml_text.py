"""YAML that is no config: an error of YAML with its line, never one of Python's."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from open_seq2seq.config.yaml_text import describe_yaml_error, dump_yaml, load_yaml

TAGS = ["", *(f"!!{name} " for name in ("int", "float", "bool", "null", "timestamp", "binary", "str", "set", "omap",
                                         "pairs", "seq", "map", "merge", "value", "nix")), "!own ", "&a ", "*a "]


@pytest.mark.long
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(TAGS), st.text("0123456789.:-+_xobeETZ[]{}'\"*&! ,?\t\n\\uUé", max_size=12))
def test_any_text_is_a_value_or_an_error_of_yaml(tag, text):
    try:
        load_yaml(f"x: {tag}{text}")
    except yaml.YAMLError as error:
        assert describe_yaml_error(error)[1]


@pytest.mark.parametrize("text", ["2024-13-01", "!!int abc", "!!int ''", "!!bool maybe", "!!timestamp soon", "0b_",
                                  "9" * 5000, '"\\U00110000"'])
def test_errors_of_values_say_where(text):
    with pytest.raises(yaml.YAMLError) as caught:
        load_yaml(f"a: 1\nb: {text}\n")
    assert describe_yaml_error(caught.value)[0] == 2


@pytest.mark.parametrize("text", ["a\x85b", "\x85", "a\n\x85b", "a\u2028b", "None", "1e-3"])
def test_strings_are_read_as_they_were_written(text):
    assert load_yaml(dump_yaml({"key": [text]})) == {"key": [text]}
