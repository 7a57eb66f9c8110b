"""Lengths under each of their names, and the documented list of keys."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from open_seq2seq.encoders import Encoder
from open_seq2seq.parts import keys
from open_seq2seq.utils.errors import ConfigError

NAMES = (keys.LENGTHS, *keys.LENGTHS_ALIASES)
PAGE = Path(__file__).parents[3] / "docs" / "components.md"


@pytest.mark.parametrize("name", NAMES)
def test_an_encoders_lengths_are_there_under_all_names(name: str):
    class Named(Encoder):
        def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
            return {"outputs": tf.zeros([2, 3, 1]), name: tf.constant([3, 2])}

    encoded = Named({}).encode({"source_tensors": []})
    assert keys.lengths_of({name: encoded[name]}) is encoded[name]
    assert all(encoded[other] is encoded[name] for other in NAMES)


def test_own_names_for_other_things_stay_and_none_are_made_up():
    one, other = tf.constant([1]), tf.constant([2])
    assert keys.with_lengths({"outputs_length": one, "src_length": other})["src_length"] is other
    assert keys.lengths_of({"src_length": other, "outputs_length": one}) is one
    assert keys.with_lengths({"outputs": one, "src_length": None}) == {"outputs": one, "src_length": None}


def test_missing_lengths_are_named():
    with pytest.raises(ConfigError, match="output of the encoder has no lengths: return them as 'outputs_length'"):
        keys.lengths_of({"outputs": None})


@pytest.mark.parametrize("kind", [keys.EncoderInput, keys.EncoderOutput, keys.DecoderInput, keys.DecoderOutput,
                                  keys.LossInput])
def test_every_key_is_described(kind: Any):
    table = {key for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")
             for key in re.findall(r"`(\w+)`", line.split("|")[1])}
    for key in kind.__annotations__:
        assert f"\n  {key}: " in str(inspect.getdoc(kind)), key  # without the indentation, which Python 3.13 removes
        assert key in table, key
