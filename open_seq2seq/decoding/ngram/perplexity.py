"""Log probabilities of sentences and perplexity of texts under a language model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from open_seq2seq.decoding.ngram.model import LanguageModel
from open_seq2seq.utils.unicode_text import TextIds


class Perplexity(NamedTuple):
    """Perplexity of a text.

    Attributes:
      perplexity: perplexity over all words and sentence ends; unknown words have the probability of <unk>, or 1e-100 if
        the model has no <unk>.
      known: perplexity over the known words and sentence ends only.
      words: number of words in the text.
      unknown: number of words that the model does not know.
      sentences: number of sentences.
    """

    perplexity: float
    known: float
    words: int
    unknown: int
    sentences: int


def sentence_scores(model: LanguageModel, words: Iterable[int]) -> tuple[list[float], float]:
    """Returns the natural log probability of each word id of a sentence, and that of the end of the sentence."""
    state, scores = np.array([model.start_state()]), []
    for word in words:
        score, state = model.score(state, np.array([word]))
        scores.append(float(score[0]))
    return scores, float(model.score_end(state)[0])


def perplexity(model: LanguageModel, sentences: Iterable[Sequence[str]]) -> Perplexity:
    """Returns the perplexity of sentences, each a sequence of words."""
    ids = TextIds({word: number for number, word in enumerate(model.words)}, -1)
    total = total_known = 0.0
    words = unknown = count = 0
    for sentence in sentences:
        numbers = [ids[word] for word in sentence]
        scores, end = sentence_scores(model, numbers)
        for number, score in zip(numbers, scores, strict=True):
            total += score
            total_known += score if number >= 0 else 0.0
        total, total_known = total + end, total_known + end
        words, unknown, count = words + len(numbers), unknown + numbers.count(-1), count + 1
    units = words + count
    return Perplexity(math.exp(-total / max(units, 1)), math.exp(-total_known / max(units - unknown, 1)), words,
                      unknown, count)
