"""What a prefix search asks of a language model, and the answers of none."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class PrefixScorer(Protocol):
    """Scores prefixes by more than the acoustics; scores are weighted natural logarithms.

    A prefix has ``num_floats`` and ``num_ints`` numbers of the scorer's own: the columns of ``floats``
    ``[num_floats, beam]`` and ``ints`` ``[num_ints, beam]``. The scorer may change them in place.
    """

    num_floats: int
    num_ints: int

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the empty prefix's numbers: ``[num_floats]`` and ``[num_ints]``."""

    def extend(self, floats: np.ndarray, ints: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        """Returns what each prefix gains by each symbol ``[beam, len(symbols)]``; -inf forbids it."""

    def follow(self, floats: np.ndarray, ints: np.ndarray, parents: np.ndarray,
               symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of the prefixes that ``symbols`` ``[n]`` make of ``parents`` ``[n]``."""

    def walk(self, floats: np.ndarray, ints: np.ndarray,
             symbols: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns what each prefix gains by all of several symbols ``[beam]``, and its numbers after them."""

    def finish(self, floats: np.ndarray, ints: np.ndarray) -> np.ndarray:
        """Returns what each prefix gains when the utterance ends with it ``[beam]``."""


class NoScorer:
    """The acoustics alone."""

    num_floats = 0
    num_ints = 0
    _floats = np.zeros([0])
    _ints = np.zeros([0], np.int64)

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        return self._floats, self._ints

    def extend(self, floats: np.ndarray, ints: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        return np.zeros([floats.shape[1], len(symbols)])

    def follow(self, floats: np.ndarray, ints: np.ndarray, parents: np.ndarray,
               symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros([0, len(parents)]), np.zeros([0, len(parents)], np.int64)

    def walk(self, floats: np.ndarray, ints: np.ndarray,
             symbols: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.zeros(floats.shape[1]), floats, ints

    def finish(self, floats: np.ndarray, ints: np.ndarray) -> np.ndarray:
        return np.zeros(floats.shape[1])
