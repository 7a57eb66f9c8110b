"""The detector: what is divergence, when it is seen, and that nothing is waited for."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.training.loop.divergence import Divergence, DivergenceDetector, LossLevel, listed, nonfinite


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


def level_after(losses, factor=100.0):
    level = LossLevel(factor)
    return level, [level.problem(loss) for loss in losses]


def test_losses_that_stay_far_above_the_first_are_divergence():
    detector = DivergenceDetector(3, loss_factor=100.0)
    feed(detector, [results(2.0)] * 12 + [results(500.0)] * 10)
    with pytest.raises(Divergence, match=r"the loss is 500, and has been more than 100 times .* \(2\) for 10 updates"):
        detector.settle({})
    detector.forget()
    feed(detector, [results(500.0)] * 9)
    detector.settle({})  # counted anew


@pytest.mark.parametrize("losses", [
    [2.0] * 12 + [500.0] * 9 + [2.0] + [500.0] * 9,  # never long enough
    [2.0] * 12 + [199.0] * 50,  # not high enough
    [0.0] * 12 + [500.0] * 50, [-3.0] * 12 + [500.0] * 50,  # nothing to compare with
])
def test_other_losses_are_not(losses):
    assert not any(level_after(losses)[1])


def test_a_run_that_diverges_at_once_is_compared_with_its_first_update():
    assert level_after([2.0] + [1e9] * 9)[1][-1] is None
    assert "more than 100 times" in level_after([2.0] + [1e9] * 10)[1][-1]


def test_the_level_can_be_taken_up_again():
    losses = [2.0, 3.0] + [400.0] * 12
    whole = level_after(losses)[1]
    for cut in range(len(losses)):
        before, first = level_after(losses[:cut])
        after = LossLevel(100.0)
        after.resume(before.state())
        assert first + [after.problem(loss) for loss in losses[cut:]] == whole


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
