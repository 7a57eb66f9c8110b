"""The interface between prefix search and language models."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class PrefixScorer(Protocol):
    """Scores prefixes in addition to the acoustic model; scores are weighted natural logarithms.

    A gain is what an extension adds to the score of a prefix. The scorer defines a state for each prefix: a column of
    ``floats`` ``[rows, beam]`` and a column of ``ints`` ``[rows, beam]``; each scorer has its own numbers of rows. The
    search stores the states and passes them to the scorer's methods, which may change both arrays in place.
    """

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the empty prefix's state: floats ``[rows]`` and ints ``[rows]``."""

    def extend(self, floats: np.ndarray, ints: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        """Returns the gain of extending each prefix by each symbol, ``[beam, len(symbols)]``; -inf forbids the symbol.

        The symbols are in ascending order.
        """

    def follow(self, floats: np.ndarray, ints: np.ndarray, parents: np.ndarray,
               symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the states after extending, for each i, prefix ``parents[i]`` by ``symbols[i]``; both are ``[n]``."""

    def walk(self, floats: np.ndarray, ints: np.ndarray,
             symbols: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the gain ``[beam]`` of extending each prefix by a sequence of symbols, and the states after it."""

    def finish(self, floats: np.ndarray, ints: np.ndarray) -> np.ndarray:
        """Returns the gain ``[beam]`` of each prefix if the utterance ends after it."""
