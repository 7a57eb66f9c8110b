"""Scores prefixes with a language model of words, whose vocabulary is the lexicon."""

from __future__ import annotations

import copy

import numpy as np

from open_seq2seq.decoding.ctc.lexicon import Lexicon
from open_seq2seq.decoding.ctc.symbols import Symbols
from open_seq2seq.decoding.ngram.model import LanguageModel
from open_seq2seq.decoding.ngram.text import CASES

_MAX_SCORES = 2**18  # maximum number of cached scores (70 MB), which limits the memory of endless streams
_SPECIAL = {"<s>", "</s>", "<unk>", "<UNK>"}


class WordScorer:
    """Adds alpha · ln P(word | preceding words) + beta when a word is complete.

    A prefix's state has one float: the gain if its last word were complete, or NaN if not computed yet. It has three
    integers: the language model's state before the last word, the word's node in the lexicon, and the language
    model's state after the word, or 0 if not computed yet.

    Args:
      model: the language model.
      symbols: the alphabet.
      alpha: weight of the language model.
      beta: bonus for each word.
      oov_penalty: cost of a word that the model does not know, in nats, in addition to its probability as an unknown
        word; None forbids such words.
      case: conversion of the model's words to the alphabet's case: ``as_is``, ``lower`` or ``upper``.
      score_end: whether to add the language model's score for the end of the sentence.

    Attributes:
      lexicon: the words that the alphabet can spell.
      num_words: number of words of the model, those included that the alphabet cannot spell.
    """

    def __init__(self, model: LanguageModel, symbols: Symbols, alpha: float, beta: float,
                 oov_penalty: float | None = None, case: str = "as_is", score_end: bool = True) -> None:
        self._model = model
        self._alpha, self._beta, self._score_end = alpha, beta, score_end
        self._penalty = np.inf if oov_penalty is None else oov_penalty
        spell = CASES[case]
        spellings = ["" if word in _SPECIAL else spell(word) for word in model.words]
        self.num_words = sum(map(bool, spellings))
        self.lexicon = Lexicon(spellings, symbols)
        self._starts_word = symbols.starts_word
        starts = np.nonzero(self._starts_word)[0]
        self._first_start, self._last_start = (int(starts[0]), int(starts[-1])) if len(starts) else (0, -1)
        self._scores: dict[tuple[int, int], tuple[float, int]] = {}

    def with_weights(self, alpha: float, beta: float) -> WordScorer:
        """Returns a copy with another ``alpha`` and ``beta``, which shares model, lexicon and cached scores."""
        other = copy.copy(self)
        other._alpha, other._beta = alpha, beta
        return other

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([np.nan]), np.array([self._model.start_state(), 0, 0])

    def extend(self, floats: np.ndarray, ints: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        """Returns the gain of each prefix from each symbol ``[beam, len(symbols)]``.

        A symbol that starts a word adds the gain of the word before it, which is now complete. A symbol that leads out
        of the lexicon costs the penalty, once per word. Other symbols gain nothing.
        """
        nodes = ints[1]
        rows = self.lexicon.rows(nodes)
        after = self.lexicon.table.take(rows, 0).take(symbols, 1)
        outside = after == self.lexicon.outside
        # Symbols are sorted, so it suffices to compare the first and the last one with the symbols that start words.
        may_start = len(symbols) > 0 and symbols[0] <= self._last_start and symbols[-1] >= self._first_start
        starts = self._starts_word.take(symbols) if may_start else np.zeros(len(symbols), bool)
        gains = np.zeros(after.shape)
        if np.count_nonzero(outside):
            # Each word is charged the penalty only once.
            outside &= (nodes != self.lexicon.outside)[:, np.newaxis] | starts
            np.putmask(gains, outside, -self._penalty)
        if may_start and np.count_nonzero(starts):
            self._complete(floats, ints)
            gains[:, starts] += floats[0][:, np.newaxis]
        return gains

    def _complete(self, floats: np.ndarray, ints: np.ndarray) -> None:
        """Replaces gains that are NaN by the gains if the last words were complete, and sets the states after them."""
        (ending_gains,), (states, nodes, end_states) = floats, ints
        rows = np.nonzero(np.isnan(ending_gains))[0]
        if not len(rows):
            return
        states, nodes = states[rows], nodes[rows]
        words = self.lexicon.word(nodes)
        scores, after = self._cached_scores(states, words)
        gains = self._alpha * scores + self._beta
        # A prefix of a word that is not a word itself is an unknown word, not yet charged the penalty.
        gains -= np.where((words < 0) & (nodes != self.lexicon.outside), self._penalty, 0.0)
        empty = nodes == 0
        ending_gains[rows] = np.where(empty, 0.0, gains)
        end_states[rows] = np.where(empty, states, after)

    def _cached_scores(self, states: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if len(self._scores) > _MAX_SCORES:
            self._scores.clear()  # rare, so cheaper than an LRU cache
        keys = list(zip(states.tolist(), words.tolist(), strict=True))
        new = [key for key in dict.fromkeys(keys) if key not in self._scores]
        if new:
            asked = np.array(new, np.int64)
            scores, after = self._model.score(asked[:, 0], asked[:, 1])
            self._scores.update(zip(new, zip(scores.tolist(), after.tolist(), strict=True), strict=True))
        found = np.array([self._scores[key] for key in keys])
        return found[:, 0], found[:, 1].astype(np.int64)

    def walk(self, floats: np.ndarray, ints: np.ndarray,
             symbols: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        gains = np.zeros(floats.shape[1])
        after = ints.copy()
        states, nodes, _ = after
        for row in range(len(gains)):
            gains[row], states[row], nodes[row] = self._walk_one(int(states[row]), int(nodes[row]), symbols)
        return gains, np.full_like(floats, np.nan), after

    def _walk_one(self, state: int, node: int, symbols: list[int]) -> tuple[float, int, int]:
        gain, outside, starts = 0.0, self.lexicon.outside, self._starts_word
        for symbol in symbols:
            if starts[symbol]:
                ended, state = self._end_of_one(state, node)
                gain += ended
                after = self.lexicon.next_of_one(0)[symbol]
                gain -= self._penalty if after == outside else 0.0
            else:
                after = self.lexicon.next_of_one(node)[symbol]
                gain -= self._penalty if after == outside != node else 0.0
            node = after
        return gain, state, node

    def _end_of_one(self, state: int, node: int) -> tuple[float, int]:
        """Returns the gain of a word that ends at a node, and the language model's state after the word."""
        if node == 0:
            return 0.0, state
        word = self.lexicon.word_of_one(node)
        found = self._scores.get((state, word))
        if found is None:
            self._cached_scores(np.array([state]), np.array([word]))
            found = self._scores[state, word]
        unpaid = word < 0 and node != self.lexicon.outside
        return self._alpha * found[0] + self._beta - (self._penalty if unpaid else 0.0), found[1]

    def follow(self, floats: np.ndarray, ints: np.ndarray, parents: np.ndarray,
               symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        states, nodes, end_states = ints
        after = np.zeros((3, len(parents)), np.int64)
        starts = self._starts_word.take(symbols)
        after[0] = states.take(parents)
        if np.count_nonzero(starts):
            np.copyto(after[0], end_states.take(parents), where=starts)
        after[1] = self.lexicon.known_next(nodes.take(parents), symbols)
        return np.full((1, len(parents)), np.nan), after

    def finish(self, floats: np.ndarray, ints: np.ndarray) -> np.ndarray:
        self._complete(floats, ints)
        if not self._score_end:
            return floats[0].copy()
        return floats[0] + self._alpha * self._model.score_end(ints[2])
