import numpy as np
import pytest

from open_seq2seq.metrics.alignment import coverage, diagonality, monotonicity, spoken_attention


def test_a_diagonal_attention():
    weights = np.repeat(np.eye(20), 3, axis=0)
    assert diagonality(weights) == monotonicity(weights) == coverage(weights) == 1.0


def test_uniform_attention_has_a_diagonality_of_about_0_28():
    assert diagonality(np.full([300, 100], 0.01)) == pytest.approx(0.28, abs=0.01)


def test_an_attention_that_jumps_and_one_that_stays():
    back = np.eye(10)[[0, 1, 2, 1, 2]]
    assert monotonicity(back) == 0.75 and coverage(back) == 0.3
    stays = np.eye(10)[[4] * 6]
    assert monotonicity(stays) == 1.0 and coverage(stays) == 0.1 and diagonality(stays) < 0.5


def test_symbols_that_are_not_spoken_do_not_count():
    # A start symbol, a mark without a duration between two symbols, and end symbols, to which the last frames attend.
    weights = np.eye(9)[[1, 1, 2, 4, 4, 5, 7, 7]]
    spoken = spoken_attention(weights, np.isin(np.arange(9), [1, 2, 4, 5]))
    assert coverage(spoken) == monotonicity(spoken) == diagonality(spoken) == 1.0
    assert coverage(weights) < 1.0 > monotonicity(weights)


@pytest.mark.parametrize("spoken", [np.zeros(3, bool), np.array([True, False, False])])
def test_nothing_to_measure(spoken):
    for weights in (np.zeros([0, 3]), np.eye(3)[[1, 1]]):
        attention = spoken_attention(weights, spoken)
        assert diagonality(attention) == coverage(attention) == 0.0 and monotonicity(attention) == 1.0
