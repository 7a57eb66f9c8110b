"""The detector: what is divergence, when it is seen, and that nothing is waited for."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.training.divergence import Divergence, DivergenceDetector, listed, nonfinite


def results(loss=1.0, applied=True):
    return {"loss": tf.constant(loss), "finite_loss": tf.math.is_finite(loss), "applied": tf.constant(applied),
            "loss_scale": tf.constant(1.0), "learning_rate": tf.constant(0.1), "gradients": {"w": tf.zeros(3)}}


def feed(detector, rows, first=1):
    for step, row in enumerate(rows, first):
        detector.observe(step, [{"ids": np.array([step])}], row)


class Unread:
    """A result that is not there yet."""

    def __bool__(self):
        raise AssertionError("waited for the step just made")

    __float__ = __array__ = __bool__


def test_a_step_is_looked_at_when_the_next_has_been_made():
    detector = DivergenceDetector(3)
    feed(detector, [results(), {name: Unread() for name in results()}])
    detector = DivergenceDetector(3)
    feed(detector, [results(), results(np.nan)])
    with pytest.raises(Divergence) as caught:
        feed(detector, [results()], first=3)
    assert caught.value.attempt.step == 2 and caught.value.attempt.batches[0]["ids"] == [2]
    assert caught.value.later.step == 3 and "loss" in caught.value.reason


@pytest.mark.parametrize("loss", [np.nan, np.inf, -np.inf])
def test_settling_looks_at_the_last_step(loss):
    detector = DivergenceDetector(3)
    feed(detector, [results(), results(loss, applied=False)])
    with pytest.raises(Divergence) as caught:
        detector.settle({})
    assert caught.value.attempt.step == 2 and caught.value.later is None
    detector.settle({})  # once is enough


def test_skips_in_a_row_are_counted_and_others_are_not():
    skip = results(applied=False)
    detector = DivergenceDetector(3)
    feed(detector, [skip, skip, results(), skip, skip, results()] * 5)
    detector.settle({})
    assert detector.skipped_in_a_row == 0
    feed(detector, [skip, skip, skip])
    assert detector.skipped_in_a_row == 2
    with pytest.raises(Divergence, match="3 updates in a row"):
        detector.settle({})


def test_the_count_can_be_taken_up_again():
    detector = DivergenceDetector(3)
    detector.skipped_in_a_row = 2
    feed(detector, [results(applied=False)])
    with pytest.raises(Divergence, match="3 updates in a row"):
        detector.settle({})
    detector.forget()
    assert detector.skipped_in_a_row == 0


def test_the_default_lets_backoff_find_its_scale():
    from open_seq2seq.models import Model

    default = Model.get_optional_params()["max_skipped_updates"].default
    skips_to_the_minimum = int(np.log2(2.0 ** 14)) + 1
    assert default > skips_to_the_minimum


def test_bad_variables_are_named_when_settled():
    detector = DivergenceDetector(3)
    variables = {"good": tf.Variable(1.0), "count": tf.Variable(3, dtype=tf.int64),
                 "bad": tf.Variable([1.0, np.inf]), "worse": tf.Variable(np.nan, dtype=tf.float32)}
    assert nonfinite(variables) == ["bad", "worse"]
    detector.settle(variables)  # nothing was trained yet: whose fault would it be
    feed(detector, [results()])
    with pytest.raises(Divergence, match="bad, worse"):
        detector.settle(variables)


def test_results_that_are_not_needed_are_not_held():
    detector = DivergenceDetector(1)
    feed(detector, [results(np.nan)])
    with pytest.raises(Divergence) as caught:
        detector.settle({})
    assert "gradients" not in caught.value.attempt.results


def test_long_lists_are_cut():
    assert listed(["a", "b"]) == "a, b"
    assert listed(list("abcde")) == "a, b, c and 2 more"
