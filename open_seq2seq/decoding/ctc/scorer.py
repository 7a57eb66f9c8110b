"""The interface between prefix search and language models."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class PrefixScorer(Protocol):
    """Scores prefixes beside the acoustic model; scores are weighted natural logarithms.

    A prefix has numbers of the scorer's own: a column of ``floats`` ``[rows, beam]`` and one of ``ints``
    ``[rows, beam]``. The scorer may change them in place.
    """

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the empty prefix's numbers ``[rows]``, floating-point and integer."""

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
