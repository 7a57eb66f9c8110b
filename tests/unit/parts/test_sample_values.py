"""Samples of WaveNet: the mu-law, and mixtures of logistics against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import logistic

from open_seq2seq.parts.sample_values import LogisticMixture, MuLaw


def parameters(rng, shape, components):
    """Returns logits, means and log scales ``[*shape, components]``, and all of them as predictions."""
    logits, means = rng.normal(size=[*shape, components]), rng.uniform(-1.1, 1.1, [*shape, components])
    log_scales = rng.uniform(-4.0, 0.0, [*shape, components])
    return logits, means, log_scales, tf.constant(np.concatenate([logits, means, log_scales], -1), tf.float32)


def probabilities_of(logits, means, log_scales, levels):
    """Returns the probabilities of all levels ``[…, levels]`` in FP64, as differences of distribution functions."""
    bounds = np.arange(1, levels) * 2 / (levels - 1) - 1 - 1 / (levels - 1)
    below = logistic.cdf(bounds, means[..., np.newaxis], np.exp(log_scales)[..., np.newaxis])
    edges = np.zeros([*below.shape[:-1], 1])
    of_components = np.diff(np.concatenate([edges, below, edges + 1], -1))
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return (weights[..., np.newaxis] * of_components).sum(-2)


def test_the_mu_law_is_inverted_within_a_level():
    values = MuLaw(256)
    audio = np.linspace(-1.0, 1.0, 1001, dtype=np.float32)
    ids = values.of_audio(tf.constant(audio)).numpy()
    assert (ids.min(), ids.max(), ids[500]) == (0, 255, 128) and (np.diff(ids) >= 0).all()
    levels = values.audio(tf.range(256)).numpy()
    np.testing.assert_array_equal(values.of_audio(tf.constant(levels)), np.arange(256))
    assert np.abs(levels[ids] - audio).max() <= np.diff(levels).max() / 2 + 1e-6


@pytest.mark.parametrize("levels", [2, 16, 255])
def test_errors_are_those_of_differences_of_distribution_functions(levels):
    rng = np.random.default_rng(0)
    logits, means, log_scales, predicted = parameters(rng, [5], 3)
    expected = probabilities_of(logits, means, log_scales, levels)
    np.testing.assert_allclose(expected.sum(-1), 1.0)
    for level in {0, 1, levels // 2, levels - 1}:
        audio = tf.fill([5], 2 * level / (levels - 1) - 1)
        np.testing.assert_allclose(LogisticMixture(levels, 3).errors(predicted, audio), -np.log(expected[:, level]),
                                   rtol=1e-3, atol=1e-4)


def test_narrow_intervals_have_the_density_and_no_error_is_infinite():
    rng = np.random.default_rng(1)
    logits, means, log_scales, predicted = parameters(rng, [20], 4)
    audio = rng.uniform(-0.9, 0.9, [20])
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    density = (weights * logistic.pdf(audio[:, np.newaxis], means, np.exp(log_scales))).sum(-1)
    mixture = LogisticMixture(2 ** 16, 4)
    np.testing.assert_allclose(mixture.errors(predicted, tf.constant(audio, tf.float32)), -np.log(density * 2 / 65535),
                               rtol=1e-3)
    extreme = tf.constant([[0.0, 40.0, -50.0], [0.0, -1.0, -50.0], [0.0, 0.0, 30.0]])
    with tf.GradientTape() as tape:
        tape.watch(extreme)
        errors = LogisticMixture(2 ** 16, 1).errors(extreme, tf.constant([-1.0, 0.5, 1.0]))
    assert np.isfinite(errors).all() and np.isfinite(tape.gradient(errors, extreme)).all()


def test_samples_have_the_probabilities_of_the_mixture():
    rng = np.random.default_rng(2)
    logits, means, log_scales, predicted = parameters(rng, [1], 3)
    mixture = LogisticMixture(9, 3)
    draw = tf.function(lambda: tf.map_fn(lambda number: mixture.drawn(predicted, 1.0, [7, number])[0], tf.range(9000),
                                         fn_output_signature=tf.float32))
    levels, counts = np.unique(np.rint((draw().numpy() + 1) * 4).astype(int), return_counts=True)
    shares = np.zeros(9)
    shares[levels] = counts / 9000
    np.testing.assert_allclose(shares, probabilities_of(logits, means, log_scales, 9)[0], atol=0.03)


def test_without_temperature_the_mean_of_the_likeliest_component_is_drawn():
    predicted = tf.constant([[0.0, 1.0, 0.5, -0.25, -3.0, 0.0], [2.0, 1.0, 0.5, -0.25, -3.0, 0.0]])
    np.testing.assert_allclose(LogisticMixture(2 ** 16, 2).drawn(predicted, 0.0, [0, 0]), [-0.25, 0.5], atol=1e-4)


@pytest.mark.parametrize("values", [MuLaw(16), LogisticMixture(2 ** 12, 3)])
def test_all_examples_have_the_same_random_numbers(values):
    predicted = np.random.default_rng(3).normal(size=[4, values.outputs]).astype(np.float32)
    together = values.drawn(tf.constant(predicted), 0.7, [1, 5])
    alone = [values.drawn(tf.constant(predicted[row:row + 1]), 0.7, [1, 5])[0] for row in range(4)]
    np.testing.assert_array_equal(together, tf.stack(alone))
