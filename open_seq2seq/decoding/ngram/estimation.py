"""Estimation of n-gram models from text: interpolated modified Kneser-Ney.

Chen and Goodman 1998, "An Empirical Study of Smoothing Techniques for Language Modeling", section 3; counts at the
beginning of sentences and the unknown word as in Heafield et al. 2013, "Scalable Modified Kneser-Ney Language Model
Estimation". The corpus is held in memory: about 60 bytes a word and order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from open_seq2seq.decoding.ngram.model import BOS, EOS, UNKNOWN, NgramModel, Order
from open_seq2seq.utils.errors import DataError

_SPECIAL = (UNKNOWN, BOS, EOS)
_FALLBACK = (0.5, 1.0, 1.5)


class Estimate(NamedTuple):
    """An estimated model, and statistics of the estimation.

    Attributes:
      model: the model.
      words: running words of the text.
      sentences: lines with words.
      discounts: D1, D2, D3+ of each order.
      fallback_orders: orders with fixed discounts, because there were too few counts to estimate them from.
    """

    model: NgramModel
    words: int
    sentences: int
    discounts: list[tuple[float, ...]]
    fallback_orders: list[int]


class _Counts(NamedTuple):
    """The different n-grams of one order, sorted by context and last word.

    Attributes:
      keys: context · vocabulary size + word ``[n-grams]``.
      raw: how often each occurs.
      adjusted: raw in the highest order and at the beginning of sentences; else before how many words it occurs.
    """

    keys: np.ndarray
    raw: np.ndarray
    adjusted: np.ndarray


def estimate(sentences: Iterable[Sequence[str]], order: int, prune: Sequence[int] = (),
             vocabulary: Iterable[str] | None = None) -> Estimate:
    """Estimates a model.

    Args:
      sentences: the text, each sentence a sequence of words.
      order: longest n-gram.
      prune: n-grams of length 1, 2, … that occur at most so often are left out; the last number holds for all longer
        ones. The first has to be 0, and none smaller than the one before it.
      vocabulary: other words of the text count as unknown; all of its words are known by default.

    Raises:
      DataError: there is no text, or a word is one of <s>, </s>, <unk>.
      ValueError: ``order`` or ``prune`` is invalid.
    """
    thresholds = _thresholds(order, prune)
    words, corpus, num_sentences = _numbered(sentences, vocabulary)
    if not num_sentences:
        raise DataError("There is no text to estimate a language model from: all lines are empty.")
    counted = _count(corpus, len(words), order)
    discounts, fallbacks = [], []
    for n, counts in enumerate(counted, 1):
        values, is_estimated = _discounts(_without_bos(counts) if n == 1 else counts.adjusted)
        discounts.append(values)
        fallbacks += [] if is_estimated else [n]
    orders = _smooth(counted, discounts, thresholds, len(words))
    running = int((corpus >= len(_SPECIAL)).sum() + (corpus == 0).sum())
    return Estimate(NgramModel(words, orders), running, num_sentences, discounts, fallbacks)


def _thresholds(order: int, prune: Sequence[int]) -> list[int]:
    if order < 1:
        raise ValueError(f"The order is {order} but has to be at least 1.")
    given = list(prune) or [0]
    if given[0] != 0 or any(b < a for a, b in zip(given, given[1:], strict=False)):
        raise ValueError(f"The pruning thresholds {given} have to begin with 0 and not to fall.")
    return (given + [given[-1]] * order)[:order]


def _numbered(sentences: Iterable[Sequence[str]],
              vocabulary: Iterable[str] | None) -> tuple[list[str], np.ndarray, int]:
    """Returns the words (special ones first, then by frequency), the sentences as numbers, and how many there are."""
    kept = [list(sentence) for sentence in sentences if sentence]
    frequencies = Counter(word for sentence in kept for word in sentence)
    for special in _SPECIAL:
        if frequencies.pop(special, 0):
            raise DataError(f"The text holds the word {special}, which has a meaning of its own: take it out.")
    known = set(vocabulary) - set(_SPECIAL) if vocabulary is not None else None
    if known is not None:
        frequencies.update(dict.fromkeys(known, 0))
    listed = sorted((word for word in frequencies if known is None or word in known),
                    key=lambda word: (-frequencies[word], word))
    words = [*_SPECIAL, *listed]
    ids = {word: number for number, word in enumerate(words)}
    corpus = np.fromiter((number for sentence in kept
                          for number in (1, *(ids.get(word, 0) for word in sentence), 2)), np.int64)
    return words, corpus, len(kept)


def _count(corpus: np.ndarray, vocab_size: int, order: int) -> list[_Counts]:
    sentence = np.cumsum(corpus == 1)
    raw_of, keys_of, firsts = [], [], []
    # Number of the n-gram that begins at each place, in its own order; -1 where the sentence ends before it does.
    numbers = corpus
    places: list[np.ndarray] = [corpus]
    keys_of.append(np.arange(vocab_size))
    raw_of.append(np.bincount(corpus, minlength=vocab_size))
    firsts.append(np.zeros(0, np.int64))
    for n in range(2, order + 1):
        last = np.arange(len(corpus)) + n - 1
        inside = np.nonzero(last < len(corpus))[0]
        inside = inside[sentence[inside] == sentence[last[inside]]]
        keys, first, inverse, raw = np.unique(numbers[inside] * vocab_size + corpus[last[inside]], return_index=True,
                                              return_inverse=True, return_counts=True)
        numbers = np.full(len(corpus), -1, np.int64)
        numbers[inside] = inverse
        places.append(numbers)
        keys_of.append(keys)
        raw_of.append(raw)
        firsts.append(inside[first])
    counted = []
    begins = np.zeros(0, bool)  # whether an n-gram begins a sentence
    for n in range(1, order + 1):
        contexts, _ = np.divmod(keys_of[n - 1], vocab_size)
        begins = np.arange(vocab_size) == 1 if n == 1 else begins[contexts]
        adjusted = raw_of[n - 1]
        if n < order:
            # Each different (n+1)-gram is one more word before the n-gram that ends it.
            before = np.bincount(places[n - 1][firsts[n] + 1], minlength=len(keys_of[n - 1]))
            adjusted = np.where(begins, raw_of[n - 1], before)
        counted.append(_Counts(keys_of[n - 1], raw_of[n - 1], adjusted))
    return counted


def _without_bos(unigrams: _Counts) -> np.ndarray:
    return np.delete(unigrams.adjusted, 1)


def _discounts(counts: np.ndarray) -> tuple[tuple[float, ...], bool]:
    """Returns D1, D2, D3+ (Chen and Goodman, equation 26), and whether the counts sufficed."""
    n1, n2, n3, n4 = (float((counts == k).sum()) for k in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        return _FALLBACK, False
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    if not all(0 <= d <= k for k, d in enumerate(found, 1)):
        return _FALLBACK, False
    return found, True


def _smooth(counted: list[_Counts], discounts: list[tuple[float, ...]], thresholds: list[int],
            vocab_size: int) -> list[Order]:
    """Discounts and interpolates from the lowest order up; leaves n-grams out."""
    orders: list[Order] = []
    lower = np.zeros(0)  # probabilities of the order below
    kept_below = np.zeros(0, np.int64)  # places of the kept n-grams below, -1 for the others
    ends = _suffixes(counted, vocab_size)
    for n, (counts, discount, threshold) in enumerate(zip(counted, discounts, thresholds, strict=True), 1):
        contexts, words = np.divmod(counts.keys, vocab_size)
        adjusted = counts.adjusted.astype(np.float64)
        if n == 1:
            adjusted[1] = 0.0  # <s> is never predicted
            contexts = np.zeros_like(contexts)
        totals = np.bincount(contexts, adjusted, minlength=1 if n == 1 else len(counted[n - 2].keys))
        kept = (counts.raw > threshold) | (n == 1)
        share = np.maximum(adjusted - np.array([0.0, *discount])[np.minimum(adjusted, 3).astype(int)], 0.0)
        share = np.where(kept, share, 0.0) / np.maximum(totals[contexts], 1e-300)
        left = 1.0 - np.bincount(contexts, share, minlength=len(totals))
        if n == 1:
            lower = share + left[0] / (vocab_size - 1)
            lower[1] = 1e-99
            keys = counts.keys
        else:
            orders[-1] = orders[-1]._replace(backoffs=_logs(left[np.nonzero(kept_below >= 0)[0]]))
            lower = share + left[contexts] * lower[ends[n - 1]]
            keys = (kept_below[contexts] * vocab_size + words)[kept]
        orders.append(Order(keys, _logs(lower[kept]), np.zeros(int(kept.sum()), np.float32)))
        kept_below = np.where(kept, np.cumsum(kept) - 1, -1)
    return orders


def _suffixes(counted: list[_Counts], vocab_size: int) -> list[np.ndarray]:
    """Returns for each order the place of each n-gram without its first word, in the order below."""
    ends = [np.zeros(0, np.int64)]
    for n in range(2, len(counted) + 1):
        contexts, words = np.divmod(counted[n - 1].keys, vocab_size)
        if n == 2:
            ends.append(words)
        else:
            ends.append(np.searchsorted(counted[n - 2].keys, ends[n - 2][contexts] * vocab_size + words))
    return ends


def _logs(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, 1e-99)).astype(np.float32)
