"""Estimation of n-gram models with interpolated modified Kneser-Ney smoothing, and the text that it reads.

See Chen and Goodman 1998, "An Empirical Study of Smoothing Techniques for Language Modeling", section 3. N-grams at the
beginning of sentences and the unknown word are treated as in Heafield et al. 2013, "Scalable Modified Kneser-Ney
Language Model Estimation". The corpus is kept in memory: about 60 bytes per word and order.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from open_seq2seq.decoding.ngram.model import BOS, EOS, UNKNOWN, NgramModel, Order
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.unicode_text import composed

_SPECIAL = (UNKNOWN, BOS, EOS)
_FALLBACK = (0.5, 1.0, 1.5)
SPACE = "<space>"
_COLUMNS = ("transcript", "sentence", "text")
CASES: dict[str, Callable[[str], str]] = {"as_is": str, "lower": str.lower, "upper": str.upper}


def read_transcripts(path: str) -> Iterator[str]:
    """Yields the lines of a text file or, if its name says that it is a list of recordings, their transcripts.

    Of a ``.csv`` or ``.tsv`` file, these are the column ``transcript`` (or ``sentence`` or ``text``); without such a
    header the last column, with a message. Of a ``.json``, ``.jsonl`` or ``.manifest`` file, they are ``text`` of each
    line, and of LibriSpeech's ``.trans.txt`` what follows the name of the recording. All can end in ``.gz``.

    Raises:
      DataError: the file cannot be read, is not UTF-8, or is not valid CSV or JSON.
    """
    lines, name = read_lines(path), path.removesuffix(".gz").lower()
    if name.endswith((".json", ".jsonl", ".manifest")):
        yield from _json_texts(path, lines)
    elif name.endswith((".csv", ".tsv")):
        yield from _column(path, lines, name.endswith(".tsv"))
    elif name.endswith(".trans.txt"):
        yield from (line.strip().partition(" ")[2] for line in lines)
    else:
        yield from lines


def _json_texts(path: str, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            text = json.loads(line).get("text")
        except (ValueError, RecursionError, AttributeError) as error:
            raise DataError(f"{shown(path)}:{number}: the line must be a JSON object with the key 'text'.") from error
        if not isinstance(text, (str, type(None))):
            raise DataError(f"{shown(path)}:{number}: 'text' must be a string, got {json.dumps(text)[:40]}.")
        yield text or ""


def _column(path: str, lines: Iterator[str], is_tsv: bool) -> Iterator[str]:
    first = next(lines, "")
    has_tabs = "\t" in first and (is_tsv or not set(_COLUMNS).isdisjoint(map(str.strip, first.split("\t"))))
    form: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if has_tabs else {}
    reader = csv.reader((line + "\n" for line in itertools.chain([first], lines)), **form)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        column = next((header.index(name) for name in _COLUMNS if name in header), None)
        if column is None and header:
            if len(header) > 1:
                deco_print(f"{shown(path)} has no column named {_COLUMNS[0]}: its last column is used, such as "
                           f"{header[-1][:40]!r}.")
            yield header[-1]
        for row in filter(None, reader):
            if len(row) <= (column or 0):
                raise DataError(f"{shown(path)}:{reader.line_num}: the row has {len(row)} columns, but the header has "
                                f"{len(header)}.")
            yield row[-1 if column is None else column]
    except csv.Error as error:
        raise DataError(f"{shown(path)} is not a valid CSV file: {error}.") from error


def words_of_lines(lines: Iterable[str], case: str = "as_is") -> Iterator[list[str]]:
    """Yields the words of each line, in composed letters; ``case`` is ``as_is``, ``lower`` or ``upper``."""
    change = CASES[case]
    return (change(composed(line)).split() for line in lines)


def characters_of_lines(lines: Iterable[str], case: str = "as_is") -> Iterator[list[str]]:
    """Yields the characters of each line, in composed letters, with ``<space>`` between words."""
    return ([SPACE if c == " " else c for c in " ".join(words)] for words in words_of_lines(lines, case))


class Estimate(NamedTuple):
    """An estimated model, and statistics of the estimation.

    Attributes:
      model: the model.
      words: number of running words in the text.
      sentences: number of sentences that have words.
      discounts: D1, D2, D3+ of each order.
      fallback_orders: orders whose discounts could not be estimated from the counts and are 0.5, 1 and 1.5 instead.
    """

    model: NgramModel
    words: int
    sentences: int
    discounts: list[tuple[float, ...]]
    fallback_orders: list[int]


class _Counts(NamedTuple):
    """The distinct n-grams of one order, sorted by context and last word.

    Attributes:
      keys: context · vocabulary size + last word ``[n-grams]``; the context is the index of an (n-1)-gram in its own
        order.
      raw: number of occurrences of each n-gram.
      adjusted: the raw count in the highest order and for n-grams that begin a sentence; otherwise the number of
        distinct words that precede the n-gram.
    """

    keys: np.ndarray
    raw: np.ndarray
    adjusted: np.ndarray


def estimate(sentences: Iterable[Sequence[str]], order: int, prune: Sequence[int] = (),
             vocabulary: Iterable[str] | None = None) -> Estimate:
    """Estimates an n-gram model.

    Args:
      sentences: the text, each sentence a sequence of words.
      order: length of the longest n-grams.
      prune: thresholds for n-grams of length 1, 2, …: n-grams that occur at most this often are left out. The last
        threshold applies to all longer n-grams. The first must be 0, and thresholds must not decrease.
      vocabulary: the known words; other words of the text count as unknown. By default, all words of the text are
        known.

    Raises:
      DataError: there is no text, or it contains <s>, </s> or <unk>.
      ValueError: ``order`` or ``prune`` is invalid.
    """
    thresholds = _thresholds(order, prune)
    words, corpus, num_sentences = _numbered(sentences, vocabulary)
    if not num_sentences:
        raise DataError("There is no text to estimate a language model from: all lines are empty.")
    counted = _count(corpus, len(words), order)
    discounts, fallbacks = [], []
    for n, counts in enumerate(counted, 1):
        values, is_estimated = _discounts(np.delete(counts.adjusted, 1) if n == 1 else counts.adjusted)  # without BOS
        discounts.append(values)
        fallbacks += [] if is_estimated else [n]
    orders = _smooth(counted, discounts, thresholds, len(words))
    running = int((corpus >= len(_SPECIAL)).sum() + (corpus == 0).sum())
    return Estimate(NgramModel(words, orders), running, num_sentences, discounts, fallbacks)


def _thresholds(order: int, prune: Sequence[int]) -> list[int]:
    if order < 1:
        raise ValueError(f"The order must be at least 1, got {order}.")
    given = list(prune) or [0]
    if given[0] != 0 or any(b < a for a, b in zip(given, given[1:], strict=False)):
        raise ValueError(f"The pruning thresholds must begin with 0 and must not decrease, got {given}.")
    return (given + [given[-1]] * order)[:order]


def _numbered(sentences: Iterable[Sequence[str]],
              vocabulary: Iterable[str] | None) -> tuple[list[str], np.ndarray, int]:
    """Returns the vocabulary (special words first, then by frequency), the text as ids, and the number of sentences."""
    kept = [list(sentence) for sentence in sentences if sentence]
    frequencies = Counter(word for sentence in kept for word in sentence)
    for special in _SPECIAL:
        if frequencies.pop(special, 0):
            raise DataError(f"The text contains the reserved word {special}: remove it from the text.")
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
    # Index, within its order, of the n-gram that begins at each position; -1 where the sentence is too short for it.
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
            # Each distinct (n+1)-gram adds one to the number of distinct words that precede its last n words.
            before = np.bincount(places[n - 1][firsts[n] + 1], minlength=len(keys_of[n - 1]))
            adjusted = np.where(begins, raw_of[n - 1], before)
        counted.append(_Counts(keys_of[n - 1], raw_of[n - 1], adjusted))
    return counted


def _discounts(counts: np.ndarray) -> tuple[tuple[float, ...], bool]:
    """Returns D1, D2, D3+ (Chen and Goodman, equation 26), and whether they could be estimated from the counts."""
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
    """Discounts, interpolates and prunes the n-grams, from the lowest order up."""
    orders: list[Order] = []
    lower = np.zeros(0)  # probabilities of the order below
    kept_below = np.zeros(0, np.int64)  # new index of each n-gram of the order below, or -1 if it was pruned
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
    """Returns, for each order, the index of each n-gram's suffix (all but its first word) in the order below."""
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
