"""A back-off n-gram model, stored in sorted arrays, that scores many words at once, and perplexity of texts."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from open_seq2seq.utils.unicode_text import TextIds

BOS, EOS, UNKNOWN = "<s>", "</s>", "<unk>"
_MISSING = -1
_FEW = 12  # up to this many lookups are faster one by one


class LanguageModel(Protocol):
    """Protocol of language models for decoding, with natural log probabilities and integers as states.

    Attributes:
      order: length of the longest n-gram.
      words: the vocabulary; a word's id is its index.
    """

    order: int
    words: list[str]

    def start_state(self) -> int:
        """Returns the state at the beginning of a sentence."""

    def score(self, states: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns log P(word | state) and the next states, both ``[n]``, for ``states`` and word ids ``[n]``.

        The id -1 stands for a word that the model does not know.
        """

    def score_end(self, states: np.ndarray) -> np.ndarray:
        """Returns the log probability ``[n]`` that a sentence ends after ``states``."""


class Order(NamedTuple):
    """The n-grams of one length, in ascending order of their keys.

    Attributes:
      keys: context · vocabulary size + last word, int64; the context is the index of an (n-1)-gram in its own order.
      log_probs: natural log probabilities, FP32.
      backoffs: natural logarithms of the back-off weights, FP32; 0 in the highest order.
    """

    keys: np.ndarray
    log_probs: np.ndarray
    backoffs: np.ndarray


class NgramModel:
    """A back-off n-gram model, stored in sorted arrays.

    P(w | h) is the probability of the longest known n-gram that consists of a suffix of h and w, times the back-off
    weights of all longer suffixes of h. A state is the longest suffix of the words so far that is an n-gram below the
    highest order. N-grams are numbered across all orders; the empty n-gram is 0. Memory: 28 bytes per n-gram, plus the
    words.

    Args:
      words: the vocabulary with <s>, </s> and, if the model has it, <unk>; case as in the file.
      orders: the n-grams of each length, unigrams first; the keys of the unigrams are the ids 0, 1, … of all words.
      unknown_log_prob: natural log probability of unknown words if the model has no <unk>; the logarithm of 10^-100
        by default.
    """

    def __init__(self, words: Sequence[str], orders: Sequence[Order], unknown_log_prob: float = -230.2585) -> None:
        self.words = list(words)
        self.order = len(orders)
        self._orders = list(orders)
        self._ids = {word: index for index, word in enumerate(self.words)}
        self._unknown = next((self._ids[name] for name in (UNKNOWN, "<UNK>") if name in self._ids), _MISSING)
        self._unknown_log_prob = unknown_log_prob
        # N-gram i of order n has the number starts[n - 1] + i; the empty n-gram is 0.
        self._starts = np.cumsum([1, *(len(o.keys) for o in self._orders)])
        self._start_list = self._starts.tolist()
        self._log_probs = np.concatenate([np.zeros(1, np.float32), *(o.log_probs for o in self._orders)])
        self._backoffs = np.concatenate([np.zeros(1, np.float32), *(o.backoffs for o in self._orders)])
        self._suffixes = np.zeros(int(self._starts[-1]), np.int32)
        for n in range(2, self.order + 1):
            self._link(n)

    def _link(self, n: int) -> None:
        """Finds, for each n-gram of length ``n``, its longest proper suffix that is an n-gram."""
        keys = self._orders[n - 1].keys
        contexts, words = np.divmod(keys, len(self.words))
        states = self._suffixes[contexts + self._starts[n - 2]].astype(np.int64)
        self._suffixes[self._starts[n - 1]:self._starts[n]] = self._longest(states, words)[0]

    def _child(self, states: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Returns the number of the n-gram formed by each state and its word, or -1 if there is none, ``[n]``."""
        found = np.full(len(states), _MISSING, np.int64)
        orders = np.searchsorted(self._starts, states, side="right")  # 0 for the empty n-gram
        for n in np.unique(orders) if len(orders) > 1 else orders:
            if n >= self.order:
                continue
            if n == 0:
                rows = np.nonzero(orders == 0)[0]
                found[rows] = words[rows] + 1
                continue
            rows = np.nonzero(orders == n)[0]
            keys = self._orders[n].keys
            if not len(keys):
                continue
            wanted = (states[rows] - self._starts[n - 1]) * len(self.words) + words[rows]
            places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            found[rows] = np.where(keys[places] == wanted, places + self._starts[n], _MISSING)
        return found

    def _longest(self, states: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the longest known suffix of each state and word, and the log back-off weights summed: ``[n]``."""
        result = self._child(states, words)
        weights = np.zeros(len(states))
        missing = np.nonzero(result == _MISSING)[0]
        states = states[missing]
        while len(missing):
            weights[missing] += self._backoffs[states]
            states = self._suffixes[states].astype(np.int64)
            found = self._child(states, words[missing])
            result[missing] = found
            left = found == _MISSING
            missing, states = missing[left], states[left]
        return result, weights

    @property
    def counts(self) -> list[int]:
        """Number of n-grams of each length."""
        return [len(order.keys) for order in self._orders]

    def orders(self) -> list[Order]:
        """Returns the n-grams of each length."""
        return list(self._orders)

    def start_state(self) -> int:
        return self._ids[BOS] + 1 if BOS in self._ids and self.order > 1 else 0

    def score(self, states: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns log P(word | state) and the next states, both ``[n]``; see ``LanguageModel``.

        If a state and a word form no known n-gram, the state's log back-off weight is added, and the state's suffix is
        tried (Katz 1987).
        """
        if len(states) <= _FEW:
            pairs = zip(np.asarray(states).tolist(), np.asarray(words).tolist(), strict=True)
            found = [self.score_one(state, word) for state, word in pairs]
            return np.array([f[0] for f in found], np.float64), np.array([f[1] for f in found], np.int64)
        states, words = np.asarray(states, np.int64), np.asarray(words, np.int64)
        known = np.where(words == _MISSING, self._unknown, words)
        if self._unknown == _MISSING and (known == _MISSING).any():
            return self._score_with_unknown(states, known)
        ngrams, weights = self._longest(states, known)
        after = ngrams if self.order > 1 else np.zeros_like(ngrams)
        full = after >= self._starts[self.order - 1]
        if self.order > 1 and full.any():
            after = np.where(full, self._suffixes[after], after)
        return self._log_probs[ngrams] + weights, after

    def score_one(self, state: int, word: int) -> tuple[float, int]:
        """Returns log P(word | state) and the next state; faster than ``score`` for a single state and word."""
        word = self._unknown if word == _MISSING else word
        if word == _MISSING:
            return self._unknown_log_prob, 0
        weight = 0.0
        ngram, order = self._child_of_one(state, word)
        while ngram == _MISSING:
            weight += float(self._backoffs[state])
            state = int(self._suffixes[state])
            ngram, order = self._child_of_one(state, word)
        after = ngram if order < self.order else int(self._suffixes[ngram])
        return float(self._log_probs[ngram]) + weight, after

    def _child_of_one(self, state: int, word: int) -> tuple[int, int]:
        """Returns the number and order of the n-gram formed by a state and a word, or (-1, 0) if there is none."""
        if state == 0:
            return word + 1, 1
        order = bisect.bisect_right(self._start_list, state)
        if order >= self.order:
            return _MISSING, 0
        keys = self._orders[order].keys
        wanted = (state - self._start_list[order - 1]) * len(self.words) + word
        place = int(keys.searchsorted(wanted))
        if place < len(keys) and keys[place] == wanted:
            return place + self._start_list[order], order + 1
        return _MISSING, 0

    def _score_with_unknown(self, states: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores, after = np.full(len(words), self._unknown_log_prob), np.zeros(len(words), np.int64)
        rows = np.nonzero(words != _MISSING)[0]
        if len(rows):
            scores[rows], after[rows] = self.score(states[rows], words[rows])
        return scores, after

    def score_end(self, states: np.ndarray) -> np.ndarray:
        if EOS not in self._ids:
            return np.zeros(len(states))
        return self.score(states, np.full(len(states), self._ids[EOS]))[0]


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
    nats = -total / max(units, 1), -total_known / max(units - unknown, 1)
    with np.errstate(over="ignore"):  # infinite if a word has the probability 0
        of_all, of_known = (float(np.exp(one)) for one in nats)
    return Perplexity(of_all, of_known, words, unknown, count)
