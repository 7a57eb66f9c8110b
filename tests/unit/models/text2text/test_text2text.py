"""Counted tokens of translation."""

from __future__ import annotations

from typing import Any

import numpy as np

from open_seq2seq.models import Text2Text

MODEL: Any = None  # for methods that do not use the model


def test_tokens_of_all_sources_and_of_the_target_are_counted():
    ids, lengths = np.ones([2, 3], np.int32), np.array([3, 2], np.int32)
    two = [ids, lengths, ids, lengths - 1]
    assert Text2Text.num_objects(MODEL, {"source_tensors": two}) == 8
    assert Text2Text.num_objects(MODEL, {"source_tensors": two, "target_tensors": [ids, lengths]}) == 13
    assert Text2Text.num_objects(MODEL, {"source_tensors": two[:2], "target_tensors": None}) == 5
