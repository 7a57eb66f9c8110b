"""Perplexities are powers of the mean negative log likelihood, as far as there is one."""

from __future__ import annotations

import math

import pytest

from open_seq2seq.metrics.perplexity import text_perplexity


def test_of_fair_coins():
    found = text_perplexity(8 * math.log(2.0), tokens=8, words=4, num_bytes=16)
    assert found == pytest.approx((2.0, 4.0, 0.5))


def test_of_surprises_that_are_not_finite_or_too_large():
    assert text_perplexity(1e6, 1).per_token == text_perplexity(math.inf, 1).per_token == math.inf
    assert math.isnan(text_perplexity(math.nan, 5).per_token)
