"""The words that a search may spell, as a character trie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from open_seq2seq.decoding.ctc.symbols import Symbols

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
