"""Shares of several corpora: how often an epoch reads each of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_MOST_PASSES = 50
_TOLERANCE = 0.01


def temperature_shares(sizes: Sequence[int], temperature: float) -> np.ndarray:
    """Returns shares proportional to size^(1 / temperature), which sum to 1.

    Temperature 1 keeps the sizes' proportions; higher temperatures move the shares towards equal ones
    (Arivazhagan et al. 2019, https://arxiv.org/abs/1907.05019, section 4.2).
    """
    logs = np.log(np.asarray(sizes, np.float64)) / temperature
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def repetitions(sizes: Sequence[int], shares: Sequence[float]) -> list[int]:
    """Returns how many times each corpus is read in one epoch.

    All examples of a corpus occur equally often. The corpus that is read least often is read from 1 to 50 times: the
    smallest number for which the shares of all corpora are correct to within 1 % of the share. If there is no such
    number, the one with the smallest error is used.

    Args:
      sizes: number of examples of each corpus, at least 1.
      shares: wanted share of each corpus in the examples of an epoch, above 0.
    """
    wanted = np.asarray(shares, np.float64) / np.sum(shares)
    rates = wanted / np.asarray(sizes, np.float64)
    best, error = np.ones(len(sizes), np.int64), np.inf
    for passes in range(1, _MOST_PASSES + 1):
        counts = np.maximum(1, np.rint(rates / rates.min() * passes)).astype(np.int64)
        found = counts * np.asarray(sizes, np.float64)
        off = float(np.abs(found / found.sum() / wanted - 1.0).max())
        if off < error:
            best, error = counts, off
        if error <= _TOLERANCE:
            break
    return best.tolist()
