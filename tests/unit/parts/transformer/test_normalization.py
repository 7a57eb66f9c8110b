import contextlib

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.component import named_variables, regularized_variables
from open_seq2seq.parts.transformer.normalization import BatchNorm, LayerNorm, check_norm_params, layer_norm, make_norm
from open_seq2seq.parts.xla import tracing_for_xla
from open_seq2seq.utils.errors import ConfigError

HIDDEN = 24


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return (rng.normal(1.0, 2.0, (30, HIDDEN)).astype(np.float32), rng.normal(1, 0.2, HIDDEN).astype(np.float32),
            rng.normal(0, 0.2, HIDDEN).astype(np.float32), rng.normal(size=(30, HIDDEN)).astype(np.float32))


def plain_layer_norm(x, gamma, beta):
    x = tf.cast(x, tf.float64)
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-6) * tf.cast(gamma, tf.float64) + tf.cast(beta, tf.float64)


def gradients(function, values, upstream):
    values = [tf.convert_to_tensor(v) for v in values]
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = function(*values)
    return [y, *tape.gradient(y, values, tf.cast(upstream, y.dtype))]


@pytest.mark.parametrize("dtype, tolerance", [(tf.float32, 1e-5), (tf.bfloat16, 1e-2), (tf.float16, 2e-3)])
def test_layer_norm_and_gradients_agree_with_float64(arrays, dtype, tolerance):
    x, gamma, beta, upstream = arrays
    x, upstream = tf.cast(x, dtype), tf.cast(upstream, dtype)
    got = gradients(lambda a, g, b: layer_norm(a, g, b, 1e-6), [x, gamma, beta], upstream)
    want = gradients(plain_layer_norm, [tf.cast(x, tf.float64), gamma, beta], upstream)
    assert [value.dtype for value in got] == [dtype, dtype, tf.float32, tf.float32]
    for one, other in zip(got, want, strict=True):
        error = np.linalg.norm(tf.cast(one, tf.float64) - tf.cast(other, tf.float64))
        assert error <= tolerance * np.linalg.norm(other)


def test_layer_norm_of_order_one(arrays):
    x = arrays[0]
    deviation = np.abs(x - x.mean(-1, keepdims=True)).mean(-1, keepdims=True)
    np.testing.assert_allclose(LayerNorm(HIDDEN, order=1)(tf.constant(x)), (x - x.mean(-1, keepdims=True)) / deviation,
                               rtol=1e-4, atol=1e-5)


def test_batch_norm_ignores_padding(arrays):
    x = arrays[0].reshape(5, 6, HIDDEN)
    mask = np.arange(6) < np.array([6, 2, 3, 1, 5])[:, None]
    real = x[mask]
    norm = BatchNorm(HIDDEN, momentum=0.9)
    y = norm(tf.constant(x), tf.constant(mask), training=True).numpy()
    np.testing.assert_allclose(y[mask], (real - real.mean(0)) / np.sqrt(real.var(0) + 1e-4), atol=1e-4)
    np.testing.assert_allclose(norm.moving_mean, 0.1 * real.mean(0), atol=1e-6)
    np.testing.assert_allclose(norm.moving_variance, 0.9 + 0.1 * real.var(0), atol=1e-5)


def test_batch_norm_outside_training_uses_moving_statistics_and_leaves_them(arrays):
    x = tf.constant(arrays[0])
    norm = BatchNorm(HIDDEN)
    norm(x, training=True)
    before = norm.moving_mean.numpy()
    whole, single = norm(x), norm(x[:1])
    np.testing.assert_allclose(whole[:1], single, atol=1e-6)
    np.testing.assert_array_equal(norm.moving_mean, before)


def test_batch_norm_without_rows_keeps_statistics():
    norm = BatchNorm(HIDDEN)
    norm(tf.zeros([0, 3, HIDDEN]), tf.zeros([0, 3], tf.bool), training=True)
    np.testing.assert_array_equal(norm.moving_mean, np.zeros(HIDDEN))
    np.testing.assert_array_equal(norm.moving_variance, np.ones(HIDDEN))


@pytest.mark.parametrize("rows", [0, 3])
def test_batch_norm_for_xla_is_the_same(rows):
    x = tf.constant(np.random.default_rng(1).normal(size=(rows, 5, HIDDEN)), tf.float32)
    mask, results = tf.sequence_mask([5, 2, 0][:rows], 5), []
    for context in (contextlib.nullcontext(), tracing_for_xla()):
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


def test_center_scale_decides_on_variables_and_regularizer():
    params = check_norm_params({"type": "batch_norm", "center_scale": False, "data_format": "channels_last"}, "p")
    assert set(named_variables(make_norm(HIDDEN, params))) == {"moving_mean", "moving_variance"}
    params = check_norm_params(
        {"type": "batch_norm", "regularizer": "L2", "regularizer_params": {"l2": 0.5}, "epsilon": 1e-5}, "p")
    ((variable, regularizer),) = regularized_variables(make_norm(HIDDEN, params))
    np.testing.assert_allclose(regularizer(variable), 0.5 * HIDDEN)


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match="encoder_params/norm_params/momentun.*Did you mean 'momentum'"):
        check_norm_params({"momentun": 0.9}, "encoder_params/norm_params")
    with pytest.raises(ConfigError, match="layernorm_L2"):
        check_norm_params({"type": "layer_norm"}, "p")
