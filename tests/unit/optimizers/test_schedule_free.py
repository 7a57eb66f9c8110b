"""The average of the schedule-free optimizer: what is evaluated, restarted and refused."""

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers import MixedPrecisionOptimizer, WeightAverage, make_additions, make_optimizer
from open_seq2seq.optimizers.weight_average import exchanged
from open_seq2seq.utils.errors import ConfigError
from tests.unit.optimizers import numpy_reference as ref

START = np.float32([[0.5, -2.0], [3.0, 0.1]])


def build(rate=lambda step: tf.constant(0.05), **additions):
    variables = {"kernel": tf.Variable(START)}
    wrapper = MixedPrecisionOptimizer(make_optimizer("ScheduleFreeAdamW"), rate, **additions)
    wrapper.build(variables)
    return wrapper, variables, tf.function(lambda gradients: wrapper.update(gradients, variables))


def gradients(count):
    return np.random.default_rng(0).normal(size=(count, 2, 2)).astype(np.float32)


def test_the_average_is_x_and_takes_the_place_of_the_weights():
    wrapper, variables, step = build()
    for gradient in gradients(50):
        step({"kernel": tf.constant(gradient)})
    averages = []
    trained = ref.follow(ref.schedule_free(averages=averages), START, gradients(50), [0.05] * 50)
    assert wrapper.is_averaging and wrapper.state()["ema/kernel"] is wrapper.averaged_weights["kernel"]
    with exchanged(variables, wrapper.averaged_weights):
        np.testing.assert_allclose(variables["kernel"], averages[-1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(variables["kernel"], trained, rtol=1e-5, atol=1e-5)
    assert np.abs(averages[-1] - trained).max() > 1e-3


def test_on_a_noisy_bowl_the_average_is_nearer_to_the_minimum_than_the_iterates():
    wrapper, variables, step = build()
    for noise in gradients(400):
        step({"kernel": variables["kernel"] + noise})
    z, x = (np.abs(wrapper.state()[name].numpy()).mean() for name in ("slots/z/kernel", "ema/kernel"))
    assert x < 0.5 * z


def test_nothing_changes_while_the_rate_is_zero():
    wrapper, variables, step = build(lambda step: tf.where(step < 2, 0.0, 0.1))
    for number, gradient in enumerate(gradients(3)):
        step({"kernel": tf.constant(gradient)})
        changed = not np.array_equal(variables["kernel"], START)
        assert changed == (number == 2) and np.isfinite(variables["kernel"].numpy()).all()


def test_other_weights_restart_the_average_and_the_iterates():
    wrapper, variables, step = build()
    step({"kernel": tf.constant(gradients(1)[0])})
    variables["kernel"].assign(tf.fill([2, 2], 7.0))
    wrapper.restart_average(variables)
    for name in ("slots/z/kernel", "ema/kernel"):
        np.testing.assert_array_equal(wrapper.state()[name], variables["kernel"])


@pytest.mark.parametrize(("additions", "message"), [
    ({"average": WeightAverage(0.9)}, "the optimizer itself averages the weights"),
    (make_additions({"lr_factors": {"kernel": 0.1}}), "not available for ScheduleFreeAdamW")])
def test_what_is_refused(additions, message):
    with pytest.raises(ConfigError, match=message):
        build(**additions)
