"""The update: any split of a batch gives the same one; overflow skips it; one trace."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.losses import Loss, LossTerm
from open_seq2seq.optimizers import MixedPrecisionOptimizer, Momentum, make_loss_scaler
from open_seq2seq.optimizers.dtype import FLOAT16
from open_seq2seq.optimizers.underflow import UnderflowMeter
from open_seq2seq.parts.component import Module, named_variables
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.runners import Runner
from open_seq2seq.training.loop.step import TrainStep, local_means


class Layer:
    input_signature = {"x": tf.TensorSpec([None, 3], tf.float32), "y": tf.TensorSpec([None], tf.float32)}


class Regression(Module):
    """Linear regression with two loss terms that count different units."""

    def __init__(self, dtype=tf.float32, regularizer=None, two_units=False):
        super().__init__(name="regression")
        self.kernel = self.weight([3, 1], tf.constant_initializer([[0.1], [-0.2], [0.3]]), regularizer=regularizer)
        self.data_layer, self.dtype, self.two_units = Layer(), dtype, two_units

    def loss_terms(self, batch, training):
        x = tf.cast(batch["x"], self.dtype)
        errors = tf.cast(tf.matmul(x, cast_weight(self.kernel, self.dtype)), tf.float32)[:, 0] - batch["y"]
        terms = [LossTerm(tf.reduce_sum(errors ** 2), tf.cast(tf.size(errors), tf.float32), unit="row")]
        if self.two_units:
            large = tf.cast(batch["y"] > 0, tf.float32)
            terms.append(LossTerm(tf.reduce_sum(tf.abs(errors) * large), tf.reduce_sum(large), 0.5, unit="large"))
        return terms, {}


def make_step(model, iter_size=1, scaling=1.0, compute=tf.float32, **options):
    variables = named_variables(model)
    optimizer = MixedPrecisionOptimizer(Momentum(momentum=0.9), lambda step: tf.constant(0.1),
                                        make_loss_scaler(scaling, None, compute))
    optimizer.build(variables)
    return TrainStep(model, optimizer, variables, Runner(), seed=1, iter_size=iter_size, **options), optimizer


def make_batch(rows, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(rows, 3)).astype(np.float32), "y": rng.normal(size=rows).astype(np.float32)}


def rows_of(batch, start, stop):
    return {name: values[start:stop] for name, values in batch.items()}


@pytest.mark.parametrize("two_units", [False, True])
@pytest.mark.parametrize("regularizer", [None, lambda v: 0.01 * tf.reduce_sum(v ** 2)])
def test_unequal_micro_batches_equal_the_whole(two_units, regularizer):
    batch = make_batch(16)
    whole = Regression(regularizer=regularizer, two_units=two_units)
    parts = Regression(regularizer=regularizer, two_units=two_units)
    step_whole, _ = make_step(whole)
    step_parts, _ = make_step(parts, iter_size=3)
    for _ in range(3):
        step_whole([batch])
        step_parts([rows_of(batch, 0, 1), rows_of(batch, 1, 6), rows_of(batch, 6, 16)])
    np.testing.assert_allclose(parts.kernel.numpy(), whole.kernel.numpy(), rtol=1e-5)
    assert step_whole.traces == 1 and step_parts.traces == 2


def test_a_micro_batch_without_units_counts_for_nothing():
    batch = make_batch(4)
    one, two = Regression(), Regression()
    make_step(one)[0]([batch])
    make_step(two, iter_size=2)[0]([batch, rows_of(batch, 0, 0)])
    np.testing.assert_allclose(two.kernel.numpy(), one.kernel.numpy(), rtol=1e-6)


def test_gradients_are_reported_unscaled():
    model = Regression()
    step, _ = make_step(model, scaling=1.0, report_gradients=True)
    batch = make_batch(8)
    kernel = model.kernel.numpy().astype(np.float64)
    expected = 2 * batch["x"].T @ (batch["x"] @ kernel - batch["y"][:, None]) / 8
    np.testing.assert_allclose(step([batch])["gradients"]["kernel"], expected, rtol=1e-5)


@pytest.mark.parametrize(("iter_size", "xla"), [(1, False), (2, False), (1, True)])
def test_underflow_is_measured_at_every_nth_step(iter_size, xla):
    model = Regression()
    meter = UnderflowMeter(["kernel"], 2, FLOAT16)
    step, _ = make_step(model, iter_size, use_xla_jit=xla, underflow=meter)
    batch = make_batch(8)
    batch["x"][:, 1] = 1e-9  # its gradient is below what float16 holds
    seen = [step([batch] * iter_size)["underflow"].numpy() for _ in range(4)]
    np.testing.assert_allclose(seen, [[0.0, 0.0], [1 / 3, 1 / 3]] * 2, rtol=1e-6)
    assert step.traces == iter_size


def test_a_loss_may_be_a_scalar_or_one_term():
    class Mean(Loss):
        def _compute_loss(self, input_dict):
            return input_dict["decoder_output"]

    tensors = {"decoder_output": tf.constant(2.0, tf.float16), "target_tensors": [tf.zeros([5, 2])]}
    (term,) = Mean({}, None, "loss").compute_loss(tensors)
    assert float(term.sum) == 10.0 and float(term.units) == 5.0 and term.unit == "example"
    one = LossTerm(tf.constant(1.0), tf.constant(2.0))
    assert Mean({}, None, "loss").compute_loss({**tensors, "decoder_output": one}) == [one]


def test_local_means_add_terms_of_one_unit():
    def term(total, units, weight, unit):
        return LossTerm(tf.constant(total), tf.constant(units), weight, unit)

    means, units = local_means([term(6.0, 3.0, 1.0, "a"), term(3.0, 3.0, 2.0, "a"), term(1.0, 0.0, 1.0, "b")])
    assert float(means["a"]) == 4.0 and float(means["b"]) == 0.0 and float(units["a"]) == 3.0
