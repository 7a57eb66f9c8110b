"""Results of inference with text: translations with scores and alignments, or scores of given translations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens

_START, _END = (SpecialTextTokens.to_string(token) for token in (SpecialTextTokens.S_ID, SpecialTextTokens.EOS_ID))


@dataclass(frozen=True)
class Alignment:
    """Which source tokens a translation attends to.

    Attributes:
      source: the source tokens, special tokens included.
      target: the tokens of the translation, without special tokens.
      attention: ``[target, source]`` FP32.
      hard: for each target token, the index of the source token with the most attention, special tokens excluded; empty
        if the source consists of special tokens.
    """

    source: list[str]
    target: list[str]
    attention: np.ndarray
    hard: list[int]


class Translation(NamedTuple):
    """A hypothesis.

    Attributes:
      score: its score; see ``BeamResult``.
      text: its text.
    """

    score: float
    text: str


class Translations(list[Translation]):
    """The hypotheses for one sentence, best first: a list of ``Translation``.

    Args:
      hypotheses: the hypotheses.
      lengths: number of tokens of each hypothesis, including EOS.
      alignment: the alignment of the best hypothesis, if it is known.
    """

    def __init__(self, hypotheses: Iterable[Translation], lengths: Sequence[int], alignment: Alignment | None) -> None:
        super().__init__(hypotheses)
        self.lengths, self.alignment = list(lengths), alignment


class TargetScore(NamedTuple):
    """The score of a given translation.

    Attributes:
      log_prob: natural logarithm of the translation's probability, including EOS.
      tokens: number of tokens, including EOS.
    """

    log_prob: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """exp(-log_prob / tokens); infinity if that is too large for a float."""
        try:
            return math.exp(-self.log_prob / max(self.tokens, 1))
        except OverflowError:
            return math.inf


def aligned(layer: Any, words: list[str], ids: np.ndarray, attention: np.ndarray) -> Alignment:
    """Returns the alignment of a hypothesis.

    Args:
      layer: the data layer.
      words: tokens of the source, without special tokens.
      ids: the hypothesis, ``[time]``.
      attention: ``[time, source]``.
    """
    starts = [_START] if layer.params["use_start_token"] else []
    source = [*starts, *words, _END]
    weights = attention[positions_of_text(ids), :len(source)]
    inner = weights[:, len(starts):len(starts) + len(words)]
    hard = (inner.argmax(axis=1) + len(starts)).tolist() if words else []
    return Alignment(source, layer.target_tokens(ids), weights, hard)


def positions_of_text(ids: np.ndarray) -> list[int]:
    """Returns the positions of the ids ``[time]`` that are part of the text: those before EOS, without PAD and S."""
    ends = np.flatnonzero(ids == SpecialTextTokens.EOS_ID)
    shown = ids[:ends[0]] if len(ends) else ids
    return np.flatnonzero((shown != SpecialTextTokens.PAD_ID) & (shown != SpecialTextTokens.S_ID)).tolist()


def with_unknowns_replaced(ids: np.ndarray, alignment: Alignment) -> list[str]:
    """Returns the tokens of a hypothesis ``[time]``, unknown ones replaced by the source tokens they are aligned to."""
    unknown = ids[positions_of_text(ids)] == SpecialTextTokens.UNK_ID
    if not alignment.hard:
        return alignment.target
    return [alignment.source[place] if replace else token
            for token, replace, place in zip(alignment.target, unknown, alignment.hard, strict=True)]
