"""The moving average of weights: its formula, what it ignores, and exchanging it for an evaluation."""

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers import (
    BackoffScaler,
    MixedPrecisionOptimizer,
    WeightAverage,
    make_optimizer,
)
from open_seq2seq.optimizers.weight_average import MEAN_COUNT, TriggeredMean, WeightMean, exchanged
from open_seq2seq.utils.errors import ConfigError

STEPS = 50


def build(decay=0.9, optimizer="Adam", scaler=None):
    rng = np.random.default_rng(0)
    variables = {"a/kernel": tf.Variable(tf.constant(rng.normal(size=(3, 2)), tf.float32)),
                 "a/bias": tf.Variable(tf.zeros([2]))}
    wrapper = MixedPrecisionOptimizer(make_optimizer(optimizer), lambda step: tf.constant(0.05), scaler,
                                      average=WeightAverage(decay))
    wrapper.build(variables)
    return wrapper, variables, tf.function(lambda gradients: wrapper.update(gradients, variables))


def gradients(step):
    rng = np.random.default_rng(step + 1)
    return {"a/kernel": tf.constant(rng.normal(size=(3, 2)), tf.float32),
            "a/bias": tf.constant(rng.normal(size=2), tf.float32)}


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.9999])
def test_follows_its_formula(decay):
    wrapper, variables, step = build(decay)
    expected = {name: variable.numpy().astype(np.float64) for name, variable in variables.items()}
    for n in range(STEPS):
        step(gradients(n))
        d = min(decay, (1 + n) / (10 + n))
        expected = {name: d * expected[name] + (1 - d) * variables[name].numpy() for name in variables}
    for name, average in wrapper.averaged_weights.items():
        np.testing.assert_allclose(average, expected[name], rtol=1e-5, atol=1e-6)
        assert average.dtype == tf.float32 and not average.trainable
        assert wrapper.state()[f"ema/{name}"] is average
        assert np.abs(average - variables[name]).max() > 1e-3


def test_a_skipped_update_is_not_averaged():
    wrapper, variables, step = build(scaler=BackoffScaler())
    step(gradients(0))
    before = {name: average.numpy() for name, average in wrapper.averaged_weights.items()}
    step({**gradients(1), "a/bias": tf.constant([np.inf, 0.0])})
    for name, average in wrapper.averaged_weights.items():
        np.testing.assert_array_equal(average, before[name])


def test_exchange_puts_back_the_very_bits():
    wrapper, variables, step = build()
    other, same, twin = build()
    for n in range(4):
        step(gradients(n))
        twin(gradients(n))
        raw = {name: v.numpy() for name, v in variables.items()}
        averages = {name: v.numpy() for name, v in wrapper.averaged_weights.items()}
        with pytest.raises(KeyError), exchanged(variables, wrapper.averaged_weights):
            for name, variable in variables.items():
                np.testing.assert_array_equal(variable, averages[name])
            raise KeyError
        for name, variable in variables.items():
            np.testing.assert_array_equal(variable, raw[name])
            np.testing.assert_array_equal(wrapper.averaged_weights[name], averages[name])
            np.testing.assert_array_equal(same[name], raw[name])
            np.testing.assert_array_equal(other.averaged_weights[name], averages[name])
    with exchanged(variables, {}):
        np.testing.assert_array_equal(variables["a/bias"], raw["a/bias"])


def test_the_average_restarts_from_other_weights():
    wrapper, variables, _ = build()
    variables["a/bias"].assign([3.0, 4.0])
    variables["a/kernel"].assign_add(tf.ones([3, 2]))
    wrapper.restart_average(variables, {"a/bias"})
    np.testing.assert_array_equal(wrapper.averaged_weights["a/bias"], [3.0, 4.0])
    assert not np.array_equal(wrapper.averaged_weights["a/kernel"], variables["a/kernel"])
    wrapper.restart_average(variables)
    np.testing.assert_array_equal(wrapper.averaged_weights["a/kernel"], variables["a/kernel"])


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.5, 2.0])
def test_mistakes_are_explained(decay):
    with pytest.raises(ConfigError, match="'ema_decay'.*between 0 and 1"):
        WeightAverage(decay)


def test_a_mean_that_begins_late_covers_the_updates_since():
    """As in a run that is resumed with averaging: the weights at that time do not count as all earlier ones."""
    weights = {"w": tf.Variable([1.0])}
    mean = WeightMean(start=2)
    mean.build(weights)
    for update in (50, 51, 52):
        weights["w"].assign([float(update)])
        mean.update(weights, tf.constant(update, tf.int64))
    np.testing.assert_allclose(mean.weights["w"], [51.0])
    assert int(mean.state()[MEAN_COUNT]) == 3
    mean.restart(weights, ["w"])
    for update in (53, 54):
        weights["w"].assign([float(update)])
        mean.update(weights, tf.constant(update, tf.int64))
    np.testing.assert_allclose(mean.weights["w"], [53.5])


def test_the_mean_covers_all_updates_after_its_start():
    weights = {"w": tf.Variable([0.0, 1.0])}
    mean, values = WeightMean(start=2), []
    mean.build(weights)
    for update in range(6):
        weights["w"].assign(tf.constant([update * update, -update], tf.float32))
        mean.update(weights, tf.constant(update, tf.int64))
        values.append(weights["w"].numpy())
        expected = values[-1] if update < 2 else np.mean(values[2:], axis=0)
        np.testing.assert_allclose(mean.weights["w"], expected, rtol=1e-6)
        assert mean.has_begun == (update > 2)  # the mean of one update equals the weights


def begin_of_awd(losses, patience):
    """The evaluation after which the recipe of AWD-LSTM begins to average, or None."""
    seen = []
    for number, loss in enumerate(losses):
        if len(seen) > patience and loss > min(seen[:-patience]):
            return number
        seen.append(loss)
    return None


def observed(losses, patience, resumed_after=None):
    """The evaluation after which averaging begins, with the state moved to another object on the way."""
    weights, begin = {"w": tf.Variable([1.0])}, None
    mean = TriggeredMean(patience)
    mean.build(weights)
    for number, loss in enumerate(losses):
        if number == resumed_after:
            before, mean = mean, TriggeredMean(patience)
            mean.build(weights)
            for name, variable in mean.state().items():
                variable.assign(before.state()[name])
        assert mean.awaits(10 * number + 10) == (begin is None)
        if mean.observe(10 * number + 10, loss):
            assert begin is None
            begin = number
        assert not mean.awaits(10 * number + 10) and not mean.observe(10 * number + 10, 1e9)
        assert all(np.isfinite(variable).all() for variable in mean.state().values())
    return begin


@pytest.mark.parametrize("patience", [1, 2, 5])
def test_averaging_begins_when_the_loss_no_longer_falls(patience):
    begins = set()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        losses = (5.0 * 0.6 ** np.arange(24) + rng.normal(0.0, 0.05, 24)).tolist()
        expected = begin_of_awd(np.float32(losses), patience)
        assert observed(losses, patience) == observed(losses, patience, 3) == expected
        begins.add(expected)
    assert begins - {None}
    assert observed([3.0, 2.0, float("nan"), float("nan"), 1.0], 1) is None


def test_the_triggered_mean_covers_the_updates_since():
    weights = {"w": tf.Variable([1.0])}
    mean = TriggeredMean(1)
    mean.build(weights)
    update = tf.function(lambda index: mean.update(weights, index))
    for number, loss in enumerate([1.0, 2.0, 3.0]):
        weights["w"].assign([float(number)])
        update(tf.constant(number, tf.int64))
        np.testing.assert_array_equal(mean.weights["w"], weights["w"])
        assert mean.observe(number + 1, loss) == (number == 2) and not mean.has_begun
    for number in (3, 4, 5):
        weights["w"].assign([float(number * number)])
        update(tf.constant(number, tf.int64))
    np.testing.assert_allclose(mean.weights["w"], [np.mean([9.0, 16.0, 25.0])], rtol=1e-6)
    assert mean.has_begun
