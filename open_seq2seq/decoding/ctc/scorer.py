"""The interface between prefix search and language models."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class PrefixScorer(Protocol):
    """Scores prefixes in addition to the acoustic model; scores are weighted natural logarithms.

    A gain is what an extension adds to the score of a prefix. The scorer defines a state for each prefix: a column of
    ``floats`` ``[rows, beam]`` and a column of ``ints`` ``[rows, beam]``. The search stores the states and passes them
    to the scorer's methods, which may change both arrays in place.
    """

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the empty prefix's state: floats ``[rows]`` and ints ``[rows]``."""

    def extend(self, floats: np.ndarray, ints: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        """Returns the gain of each prefix from each of ``symbols``, ``[beam, len(symbols)]``; -inf forbids the symbol.

        The symbols are in ascending order.
        """

    def follow(self, floats: np.ndarray, ints: np.ndarray, parents: np.ndarray,
               symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the state after extending each of ``parents`` ``[n]`` by one of ``symbols`` ``[n]``."""

    def walk(self, floats: np.ndarray, ints: np.ndarray,
             symbols: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the gain of each prefix from a sequence of symbols ``[beam]``, and the state after the sequence."""

    def finish(self, floats: np.ndarray, ints: np.ndarray) -> np.ndarray:
        """Returns the gain of each prefix ``[beam]`` if the utterance ends with it."""
