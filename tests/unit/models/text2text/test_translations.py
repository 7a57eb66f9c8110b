"""Alignments, replaced unknowns and perplexities of translations."""

from __future__ import annotations

import math
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer
from open_seq2seq.data.text2text.vocabulary import Vocabulary
from open_seq2seq.models.text2text.translations import (
    TargetScore,
    Translation,
    Translations,
    aligned,
    positions_of_text,
    with_unknowns_replaced,
)

TOKENIZER = DelimiterTokenizer(Vocabulary(["<PAD>", "</S>", "<S>", "<UNK>", "la", "casa", "de"]))


def layer(use_start_token: bool) -> Any:
    return SimpleNamespace(params={"use_start_token": use_start_token}, target_tokens=TOKENIZER.tokens_of)


@pytest.mark.parametrize("start", [False, True])
def test_unknown_tokens_become_the_source_tokens_they_attend_to(start: bool):
    words = ["Ann's", "house"]
    ids = np.array([2, 4, 5, 6, 3, 1, 0])  # the start token is not part of the text
    attention = np.full([7, 2 + start + 1 + 2], 0.01)  # the source is padded by two positions
    for place, word in ((1, 1), (2, 1), (3, 0), (4, 0)):
        attention[place, start + word] = 0.9
    attention[4, start + 2] = 0.95  # the end of the source is no token
    found = aligned(layer(start), words, ids, attention)
    assert found.source == ["<S>"] * start + words + ["</S>"] and found.target == ["la", "casa", "de", "<UNK>"]
    assert found.hard == [start + 1, start + 1, start, start] and found.attention.shape == (4, 3 + start)
    assert with_unknowns_replaced(ids, found) == ["la", "casa", "de", "Ann's"]


def test_hypotheses_without_text():
    found = aligned(layer(False), ["a"], np.array([1, 0]), np.ones([2, 2]))
    assert found.target == [] and found.hard == [] and with_unknowns_replaced(np.array([1, 0]), found) == []
    found = aligned(layer(False), [], np.array([3, 1]), np.ones([2, 1]))
    assert found.hard == [] and with_unknowns_replaced(np.array([3, 1]), found) == ["<UNK>"]
    assert positions_of_text(np.array([0, 4, 2, 5])) == [1, 3]


def test_perplexities():
    assert math.isclose(TargetScore(-6.0, 3).perplexity, math.exp(2.0))
    assert TargetScore(-1e9, 1).perplexity == math.inf and TargetScore(0.0, 0).perplexity == 1.0


def test_translations_are_lists_that_other_ranks_can_send():
    found = pickle.loads(pickle.dumps(Translations([Translation(-1.0, "a")], [2], None)))
    assert found == [(-1.0, "a")] and found.lengths == [2] and found.alignment is None
