"""Shares of corpora in an epoch."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.data.text2text.mixing import repetitions, temperature_shares


@pytest.mark.parametrize(("sizes", "shares", "expected"), [
    ([100, 50], [1, 1], [1, 2]), ([100, 50], [2, 1], [1, 1]), ([100, 100], [3, 2], [3, 2]), ([7], [5], [1])])
def test_whole_numbers_of_passes(sizes, shares, expected):
    assert repetitions(sizes, shares) == expected


@pytest.mark.parametrize("seed", range(20))
def test_shares_are_met(seed):
    random = np.random.default_rng(seed)
    sizes = random.integers(50, 100000, random.integers(2, 5))
    shares = random.uniform(0.1, 1.0, len(sizes))
    found = sizes * repetitions(sizes, shares)
    np.testing.assert_allclose(found / found.sum(), shares / shares.sum(), rtol=0.0101)


def test_temperatures():
    sizes = [10000, 100, 1]
    np.testing.assert_allclose(temperature_shares(sizes, 1.0), np.array(sizes) / 10101)
    np.testing.assert_allclose(temperature_shares(sizes, 2.0), np.array([100, 10, 1]) / 111)
    np.testing.assert_allclose(temperature_shares(sizes, 1000.0), np.full(3, 1 / 3), atol=2e-3)
