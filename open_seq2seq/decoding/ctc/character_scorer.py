"""Scores prefixes with a language model over the alphabet's symbols."""

from __future__ import annotations

import numpy as np

from open_seq2seq.decoding.ctc.symbols import Symbols
from open_seq2seq.decoding.ngram.model import LanguageModel
from open_seq2seq.decoding.ngram.text import SPACE
from open_seq2seq.utils.unicode_text import TextIds

_MAX_SCORES = 2**22  # maximum number of cached scores; 64 MB, including the states


class CharacterScorer:
    """Adds alpha · ln P(symbol | preceding symbols) + beta for each symbol.

    The model's words are the alphabet's symbols, with ``<space>`` for a space. There is no lexicon, so no symbol is
    forbidden.

    Args:
      model: the language model.
      symbols: the alphabet.
      alpha: weight of the language model.
      beta: bonus for each symbol.
      score_end: whether to add the language model's score for the end of the sentence.
    """

    def __init__(self, model: LanguageModel, symbols: Symbols, alpha: float, beta: float,
                 score_end: bool = True) -> None:
        self._model, self._symbols = model, symbols
        self._alpha, self._beta, self._score_end = alpha, beta, score_end
        places = TextIds({word: place for place, word in enumerate(model.words)}, -1)
        self._words = np.array([places[SPACE if label == " " else label] for label in symbols.labels], np.int64)
        self._row_of: dict[int, int] = {}
        self._gains = np.empty([0, len(symbols)])
        self._next = np.empty([0, len(symbols)], np.int64)

    def with_weights(self, alpha: float, beta: float) -> CharacterScorer:
        """Returns a scorer with the same model and another ``alpha`` and ``beta``."""
        return CharacterScorer(self._model, self._symbols, alpha, beta, self._score_end)

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros([0]), np.array([self._model.start_state()])

    def _rows(self, states: np.ndarray) -> np.ndarray:
        """Returns the row of each state in ``_gains`` and ``_next``; computes the rows that are not cached."""
        listed = states.tolist()
        new = [state for state in dict.fromkeys(listed) if state not in self._row_of]
        if new and (len(self._row_of) + len(new)) * len(self._words) > _MAX_SCORES:
            self._row_of.clear()
            new = list(dict.fromkeys(listed))
        if new:
            self._add(new)
        return np.array([self._row_of[state] for state in listed])

    def _add(self, states: list[int]) -> None:
        used, needed, width = len(self._row_of), len(self._row_of) + len(states), len(self._words)
        if needed > len(self._gains):
            more = max(needed, 256)
            self._gains = np.concatenate([self._gains, np.empty([more, width])])
            self._next = np.concatenate([self._next, np.empty([more, width], np.int64)])
        scores, after = self._model.score(np.repeat(states, width), np.tile(self._words, len(states)))
        self._gains[used:needed] = (self._alpha * scores + self._beta).reshape(-1, width)
        self._next[used:needed] = after.reshape(-1, width)
        self._row_of.update(zip(states, range(used, needed), strict=True))

    def extend(self, floats: np.ndarray, ints: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        rows = self._rows(ints[0])
        return self._gains[rows[:, np.newaxis], symbols]

    def follow(self, floats: np.ndarray, ints: np.ndarray, parents: np.ndarray,
               symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        after = self._next[self._rows(ints[0, parents]), symbols]
        return np.zeros([0, len(parents)]), after[np.newaxis]

    def walk(self, floats: np.ndarray, ints: np.ndarray,
             symbols: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        gains, states = np.zeros(ints.shape[1]), ints[0]
        for symbol in symbols:
            rows = self._rows(states)
            gains += self._gains[rows, symbol]
            states = self._next[rows, symbol]
        return gains, floats, states[np.newaxis]

    def finish(self, floats: np.ndarray, ints: np.ndarray) -> np.ndarray:
        if not self._score_end:
            return np.zeros(ints.shape[1])
        return self._alpha * self._model.score_end(ints[0])
