"""Score prefixes with a language model: of words, whose vocabulary is the lexicon, or of the alphabet's symbols."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from open_seq2seq.decoding.ctc.symbols import Symbols
from open_seq2seq.decoding.ngram.estimation import CASES, SPACE
from open_seq2seq.decoding.ngram.model import LanguageModel
from open_seq2seq.utils.unicode_text import TextIds

_NONE = -1


class Lexicon:
    """A trie of words. Nodes are prefixes of words; the root is 0, and the last node stands for all other spellings.

    Operations work on arrays of nodes. A node's successors are computed when the node is first used, and then cached.
    Memory: 16 bytes per node, plus at least 4 bytes per symbol for each node that was used.

    Args:
      spellings: the words in the alphabet's case; among equal spellings, the first word is used.
      symbols: the alphabet.

    Attributes:
      outside: the node of all spellings that are not a prefix of a word.
      left_out: the words that have characters that are not in the alphabet.
    """

    def __init__(self, spellings: Sequence[str], symbols: Symbols) -> None:
        characters = sorted(set("".join(symbols.texts)))
        self._codes = {character: code for code, character in enumerate(characters, 1)}
        self._base = len(characters) + 1
        self._spelling = symbols.word_spelling
        spelled, self.left_out = [], []
        for word, text in enumerate(spellings):
            if self.can_spell(text):
                spelled.append((symbols.word_spelling(text), word))
            elif text:
                self.left_out.append(text)
        keys, word_of = self._build(spelled)
        self._keys = keys
        self.outside = len(word_of)
        self._word_of = np.concatenate([word_of, [_NONE]]).astype(np.int32)
        self._texts = [[self._codes[c] for c in text] for text in symbols.texts]
        self._starts_word = symbols.starts_word
        self._row_of = np.full(self.outside + 1, _NONE, np.int32)
        self._rows = np.empty([0, len(symbols)], np.int32)
        self._num_rows = 0
        self._lists: dict[int, list[int]] = {}
        self._from_root = self._walk(np.zeros(1, np.int64))[0]

    def can_spell(self, text: str) -> bool:
        """Returns whether a word is not empty, and all of its characters are in the alphabet."""
        return text != "" and self._codes.keys() >= set(self._spelling(text))

    def _build(self, spelled: list[tuple[str, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the edges (parent · base + character, ascending) and the word that ends at each node, or -1."""
        if not spelled:
            return np.zeros(0, np.int64), np.array([_NONE])
        spelled = sorted(spelled, key=lambda item: item[0])  # stable: equal spellings stay in order
        words = np.array([word for _, word in spelled])
        lengths = np.array([len(spelling) for spelling, _ in spelled])
        begins = np.cumsum(lengths) - lengths
        codes = np.fromiter((self._codes[c] for spelling, _ in spelled for c in spelling), np.int32, int(lengths.sum()))
        rows = np.arange(len(spelled))  # indices of the words with more than ``place`` characters
        nodes, keys, count = np.zeros(len(rows), np.int64), [], 1
        for place in range(int(lengths.max())):
            rows = rows[lengths[rows] > place]
            parents, code = nodes[rows], codes[begins[rows] + place]
            # Words are sorted, so words with the same prefix are adjacent.
            new = np.ones(len(rows), bool)
            new[1:] = (parents[1:] != parents[:-1]) | (code[1:] != code[:-1])
            keys.append(parents[new] * self._base + code[new])
            nodes[rows] = np.cumsum(new) + count - 1
            count += len(keys[-1])
        word_of = np.full(count, _NONE)
        word_of[nodes[::-1]] = words[::-1]
        return np.concatenate(keys), word_of

    def _walk(self, nodes: np.ndarray) -> np.ndarray:
        """Returns the nodes ``[n, symbols]`` reached from ``nodes`` ``[n]`` by the text of each symbol."""
        found = np.repeat(nodes[:, np.newaxis], len(self._texts), 1)
        for place in range(max((len(text) for text in self._texts), default=0)):
            columns = np.array([i for i, text in enumerate(self._texts) if len(text) > place])
            codes = np.array([self._texts[i][place] for i in columns])
            wanted = found[:, columns] * self._base + codes
            places = np.minimum(np.searchsorted(self._keys, wanted), max(len(self._keys) - 1, 0))
            exists = self._keys[places] == wanted if len(self._keys) else np.zeros(wanted.shape, bool)
            found[:, columns] = np.where(exists, places + 1, self.outside)
        return found

    def next(self, nodes: np.ndarray) -> np.ndarray:
        """Returns the node that each symbol leads to from each of ``nodes`` ``[n]``, as ``[n, symbols]``.

        A symbol that starts a word is looked up from the root instead.
        """
        rows = self.rows(nodes)  # may replace self._rows
        return self._rows[rows]

    def rows(self, nodes: np.ndarray) -> np.ndarray:
        """Returns the row in ``table`` of each of ``nodes`` ``[n]``, as ``[n]``; computes missing rows."""
        rows = self._row_of.take(nodes)
        new = rows < 0
        if np.count_nonzero(new):
            self._add_rows(np.unique(nodes[new]))
            rows = self._row_of.take(nodes)
        return rows

    @property
    def table(self) -> np.ndarray:
        """The nodes that symbols lead to from nodes used so far, ``[rows, symbols]``; ``rows`` gives a node's row."""
        return self._rows

    def known_next(self, nodes: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        """Returns the node that ``symbols[i]`` leads to from ``nodes[i]``, for all i, as ``[n]``.

        Call ``rows`` with these nodes first.
        """
        return self._rows.take(self._row_of.take(nodes).astype(np.int64) * self._rows.shape[1] + symbols)

    def next_of_one(self, node: int) -> list[int]:
        """Returns the node that each symbol leads to from a single node, faster than ``next``."""
        found = self._lists.get(node)
        if found is None:
            found = self._lists[node] = self.next(np.array([node]))[0].tolist()
        return found

    def _add_rows(self, nodes: np.ndarray) -> None:
        rows = self._walk(nodes.astype(np.int64))
        rows[nodes == self.outside] = self.outside
        rows[:, self._starts_word] = self._from_root[self._starts_word]
        needed = self._num_rows + len(nodes)
        if needed > len(self._rows):
            more = np.empty([max(needed, 256), self._rows.shape[1]], np.int32)
            self._rows = np.concatenate([self._rows, more])
        self._rows[self._num_rows:needed] = rows
        self._row_of[nodes] = np.arange(self._num_rows, needed)
        self._num_rows = needed

    def word(self, nodes: np.ndarray) -> np.ndarray:
        """Returns the index of the word that ends at each of ``nodes``, or -1 where no word ends."""
        return self._word_of[nodes]

    def word_of_one(self, node: int) -> int:
        """Returns the index of the word that ends at a single node, or -1."""
        return int(self._word_of[node])


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


_MAX_SYMBOL_SCORES = 2**22  # maximum number of cached scores; 64 MB, including the states


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
        if new and (len(self._row_of) + len(new)) * len(self._words) > _MAX_SYMBOL_SCORES:
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
