import numpy as np
import pytest

from open_seq2seq.metrics.alignment import coverage, diagonality, monotonicity


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


def test_nothing_to_measure():
    assert diagonality(np.zeros([0, 3])) == coverage(np.zeros([0, 3])) == 0.0
