"""Which inputs, variables, gradients and examples are not finite."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.losses import LossTerm
from open_seq2seq.parts.component import Module, named_variables
from open_seq2seq.training.loop.diagnosis import Examiner


class Layer:
    input_signature = {"x": tf.TensorSpec([None, 2], tf.float32), "ids": tf.TensorSpec([None], tf.int64)}


class Roots(Module):
    """Σ sqrt(x·used): its gradient is infinite at 0, its value NaN below; another weight is not involved."""

    def __init__(self):
        super().__init__(name="roots")
        self.used, self.unused = self.weight([2], "ones"), self.weight([3], "ones")
        self.data_layer = Layer()

    def loss_terms(self, batch, training):
        roots = tf.sqrt(tf.reduce_sum(batch["x"] * self.used, axis=1))
        loss = tf.reduce_sum(roots) + tf.reduce_sum(self.unused)
        return [LossTerm(loss, tf.cast(tf.size(roots), tf.float32))], {}


def examine(x, change=None, scale=1.0):
    model = Roots()
    if change is not None:
        change(model)
    variables = named_variables(model)
    batch = {"x": np.asarray(x, np.float32), "ids": np.arange(len(x))}
    return Examiner(model, variables, variables, seed=1).examine(batch, 0, scale)


def test_a_good_batch_is_finite():
    found = examine([[1, 1], [2, 2]])
    assert found.finite and found.loss == pytest.approx((2 ** 0.5 + 2 + 3) / 2, rel=1e-6) and found.num_gradients == 2


def test_bad_examples_are_found_among_many():
    x = np.ones((50, 2))
    x[[3, 41]] = -1.0
    found = examine(x)
    assert np.isnan(found.loss) and found.rows == [3, 41] and found.inputs == []
    x[41] = np.inf
    found = examine(x)
    assert found.rows == [3, 41] and found.inputs == ["x"]


def test_where_all_are_bad_none_is_named():
    assert examine(-np.ones((100, 2))).rows == []


def test_a_gradient_alone():
    found = examine([[0, 0], [1, 1]])
    assert np.isfinite(found.loss) and found.gradients == ["used"] and found.rows == [] and not found.finite
    assert examine([[1, 1]], scale=np.float32(3e38)).gradients == []


def test_a_weight_is_named_and_no_example():
    found = examine([[1, 1]], lambda model: model.used.assign([np.nan, 1.0]))
    assert found.values == ["used"] and found.rows == [] and not found.finite


def test_examiners_of_several_trainings_do_not_count_as_retracing(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "tensorflow"):
        tf.get_logger().addHandler(caplog.handler)
        try:
            assert all(examine([[1, 1], [2, 2]]).finite for _ in range(12))
        finally:
            tf.get_logger().removeHandler(caplog.handler)
    assert "retracing" not in caplog.text
