"""Counted tokens, and hypotheses that a search has not found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from open_seq2seq.models import Text2Text

MODEL: Any = None  # for methods that do not use the model


def test_tokens_of_all_sources_and_of_the_target_are_counted():
    ids, lengths = np.ones([2, 3], np.int32), np.array([3, 2], np.int32)
    two = [ids, lengths, ids, lengths - 1]
    assert Text2Text.num_objects(MODEL, {"source_tensors": two}) == 8
    assert Text2Text.num_objects(MODEL, {"source_tensors": two, "target_tensors": [ids, lengths]}) == 13
    assert Text2Text.num_objects(MODEL, {"source_tensors": two[:2], "target_tensors": None}) == 5


@pytest.mark.parametrize(("scores", "texts"), [
    ([-1.0, -2.0, -np.inf], ["4 1", "5 1"]), ([-1.0, -2.0, -3.0], ["4 1", "5 1", "0 0"]), ([-np.inf] * 3, ["4 1"])])
def test_hypotheses_that_do_not_exist_are_left_out(scores: list[float], texts: list[str]):
    model: Any = SimpleNamespace(data_layer=None, params={"replace_unknowns": False},
                                 _text_of=lambda example, ids: " ".join(map(str, ids)))
    result = Text2Text._translations(model, 0, np.array([[4, 1], [5, 1], [0, 0]]), np.array(scores), None, None)
    assert [one.text for one in result] == texts and len(result.lengths) == len(texts)
