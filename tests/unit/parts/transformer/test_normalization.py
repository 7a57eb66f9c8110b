import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.component import named_variables, regularized_variables
from open_seq2seq.parts.transformer.normalization import LayerNorm, check_norm_params, layer_norm, make_norm
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
