"""Batch normalisation: padding, statistics, gradients."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.batch_norm import BatchNorm, normalize_batch
from open_seq2seq.parts.forward_pass import forward_pass

HIDDEN = 24


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(1.0, 2.0, (30, HIDDEN)).astype(np.float32)


def test_batch_norm_ignores_padding(x):
    x = x.reshape(5, 6, HIDDEN)
    mask = np.arange(6) < np.array([6, 2, 3, 1, 5])[:, None]
    real = x[mask]
    norm = BatchNorm(HIDDEN, momentum=0.9)
    y = norm(tf.constant(x), tf.constant(mask), training=True).numpy()
    np.testing.assert_allclose(y[mask], (real - real.mean(0)) / np.sqrt(real.var(0) + 1e-4), atol=1e-4)
    np.testing.assert_allclose(norm.moving_mean, 0.1 * real.mean(0), atol=1e-6)
    np.testing.assert_allclose(norm.moving_variance, 0.9 + 0.1 * real.var(0), atol=1e-5)


def test_batch_norm_outside_training_uses_moving_statistics_and_leaves_them(x):
    x = tf.constant(x)
    norm = BatchNorm(HIDDEN)
    norm(x, training=True)
    before = norm.moving_mean.numpy()
    whole, single = norm(x), norm(x[:1])
    np.testing.assert_allclose(whole[:1], single, atol=1e-6)
    np.testing.assert_array_equal(norm.moving_mean, before)


@pytest.mark.parametrize("mask", [None, tf.zeros([0, 3], tf.bool)])
def test_batch_norm_without_rows_keeps_statistics(mask):
    norm = BatchNorm(HIDDEN)
    with tf.GradientTape() as tape:
        y = norm(tf.zeros([0, 3, HIDDEN]), mask, training=True)
    for gradient in tape.gradient(y, [norm.gamma, norm.beta]):
        np.testing.assert_array_equal(gradient, np.zeros(HIDDEN))
    np.testing.assert_array_equal(norm.moving_mean, np.zeros(HIDDEN))
    np.testing.assert_array_equal(norm.moving_variance, np.ones(HIDDEN))


@pytest.mark.parametrize("rows", [0, 3])
def test_batch_norm_for_xla_is_the_same(rows):
    x = tf.constant(np.random.default_rng(1).normal(size=(rows, 5, HIDDEN)), tf.float32)
    mask, results = tf.sequence_mask([5, 2, 0][:rows], 5), []
    for context in (contextlib.nullcontext(), forward_pass(for_xla=True)):
        norm = BatchNorm(HIDDEN)
        with context:
            results.append([norm(x, mask, training=True), norm.moving_mean.numpy(), norm.moving_variance.numpy()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_batch_with_nan_leaves_no_trace_in_the_statistics():
    norm = BatchNorm(HIDDEN)
    x = np.ones([4, 3, HIDDEN], np.float32)
    x[1, 2, 0] = np.nan
    assert np.isnan(norm(tf.constant(x), None, training=True)).any()
    assert norm.moving_mean[0] == 0.0 and norm.moving_variance[0] == 1.0
    assert np.isfinite(norm.moving_mean).all() and np.isfinite(norm.moving_variance).all()


@pytest.mark.parametrize(("dtype", "tolerance"), [(tf.float32, 1e-5), (tf.bfloat16, 1e-2), (tf.float16, 2e-3)])
@pytest.mark.parametrize(("share", "has_mask"), [(0.7, True), (1.0, True), (1.0, False)])
def test_results_and_gradients_are_those_of_the_rows_that_count(x, dtype, tolerance, share, has_mask):
    rng = np.random.default_rng(1)
    gamma, beta = rng.normal(1, 0.2, HIDDEN), rng.normal(0, 0.2, HIDDEN)
    keep = rng.random(30) < share
    x, upstream = tf.cast(x, dtype), tf.cast(rng.normal(size=(30, HIDDEN)), dtype)
    arguments = [x, tf.constant(gamma, tf.float32), tf.constant(beta, tf.float32)]
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        y, mean, variance = normalize_batch(x, tf.constant(keep) if has_mask else None, *arguments[1:], 1e-3)
        y = tf.boolean_mask(y, keep)
    got = [y, mean, variance, *tape.gradient(y, arguments, tf.boolean_mask(upstream, keep))]
    real = tf.cast(tf.boolean_mask(x, keep), tf.float64)
    arguments = [real, tf.constant(gamma), tf.constant(beta)]
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        mean, variance = tf.nn.moments(real, [0])
        y = (real - mean) / tf.sqrt(variance + 1e-3) * arguments[1] + arguments[2]
    by_rows, *others = tape.gradient(y, arguments, tf.cast(tf.boolean_mask(upstream, keep), tf.float64))
    want = [y, mean, variance, tf.scatter_nd(np.flatnonzero(keep)[:, None], by_rows, [30, HIDDEN]), *others]
    assert [value.dtype for value in got] == [dtype, tf.float32, tf.float32, dtype, tf.float32, tf.float32]
    for one, other in zip(got, want, strict=True):
        assert np.linalg.norm(tf.cast(one, tf.float64) - other) <= tolerance * np.linalg.norm(other)
