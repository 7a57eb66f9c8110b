"""How well a language model predicts a text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from open_seq2seq.decoding.ngram.model import LanguageModel


class Perplexity(NamedTuple):
    """Perplexity of a text.

    Attributes:
      perplexity: of all words and sentence ends, unknown words by their probability as <unk>.
      known: of the known words and sentence ends alone.
      words: how many words the text has.
      unknown: how many of them the model does not know.
      sentences: how many sentences it has.
    """

    perplexity: float
    known: float
    words: int
    unknown: int
    sentences: int


def perplexity(model: LanguageModel, sentences: Iterable[Sequence[str]]) -> Perplexity:
    """Judges a model on sentences of words."""
    ids = {word: number for number, word in enumerate(model.words)}
    total = total_known = 0.0
    words = unknown = count = 0
    for sentence in sentences:
        state = np.array([model.start_state()])
        for word in sentence:
            number = ids.get(word, -1)
            score, state = model.score(state, np.array([number]))
            total += float(score[0])
            total_known += float(score[0]) if number >= 0 else 0.0
            unknown += number < 0
        end = float(model.score_end(state)[0])
        total, total_known = total + end, total_known + end
        words, count = words + len(sentence), count + 1
    units = words + count
    return Perplexity(math.exp(-total / max(units, 1)), math.exp(-total_known / max(units - unknown, 1)), words,
                      unknown, count)
