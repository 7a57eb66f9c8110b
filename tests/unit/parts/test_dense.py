import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.dense import add_bias, bias_relu_dropped, scaled_weight, sum_over_rows
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.row_selection import gather_rows, scatter_rows

TOLERANCE = {tf.float32: 1e-5, tf.bfloat16: 2e-2, tf.float16: 3e-3}


def random(*shape, seed=0):
    return tf.constant(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def gradients(function, values, upstream):
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = function(*values)
    return y, tape.gradient(y, values, tf.cast(upstream, y.dtype))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_add_bias_and_its_gradient(dtype):
    x, bias, upstream = random(3000, 8), random(8, seed=1), random(3000, 8, seed=2) + 1.0
    y, (by_x, by_bias) = gradients(add_bias, [tf.cast(x, dtype), bias], upstream)
    np.testing.assert_allclose(tf.cast(y, tf.float32), x + bias, atol=10 * TOLERANCE[dtype])
    assert by_x.dtype == dtype and by_bias.dtype == tf.float32
    # A half-precision sum of 3000 values of mean 1 would be far off.
    exact = tf.reduce_sum(tf.cast(tf.cast(upstream, dtype), tf.float64), 0)
    np.testing.assert_allclose(by_bias, exact, rtol=5e-3 if dtype == tf.bfloat16 else 1e-5)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_relu_without_dropout(dtype):
    x, bias, upstream = random(50, 8), random(8, seed=1), random(50, 8, seed=2)
    half = tf.cast(x, dtype)
    y, (by_x, by_bias) = gradients(lambda a, b: bias_relu_dropped(a, b, 0.4, False), [half, bias], upstream)
    plain, (want_x, want_bias) = gradients(lambda a, b: tf.nn.relu(a + b), [tf.cast(half, tf.float32), bias], upstream)
    np.testing.assert_allclose(tf.cast(y, tf.float32), plain, atol=2 * TOLERANCE[dtype])
    np.testing.assert_allclose(tf.cast(by_x, tf.float32), want_x, atol=2 * TOLERANCE[dtype])
    np.testing.assert_allclose(by_bias, want_bias, atol=10 * TOLERANCE[dtype])


def test_relu_with_dropout_masks_both_directions():
    x, bias, upstream = random(400, 8), random(8, seed=1), random(400, 8, seed=2)

    def function(a, b):
        with forward_pass(0, 0):
            return bias_relu_dropped(a, b, 0.25, True)

    y, (by_x, by_bias) = gradients(function, [x, bias], upstream)
    kept = (y.numpy() != 0).astype(np.float32)
    active = (x + bias).numpy() > 0
    np.testing.assert_allclose(y, np.where(active, x + bias, 0) * kept, atol=1e-6)
    assert abs(kept[active].mean() - 0.75) < 0.05
    np.testing.assert_allclose(by_x, upstream * kept, atol=1e-6)
    np.testing.assert_allclose(by_bias, np.sum(upstream * kept, 0), atol=1e-4)


def test_scaled_weight_multiplies_before_rounding():
    variable = tf.Variable(random(16, 16))
    want = tf.cast(variable * 0.3, tf.bfloat16)
    np.testing.assert_array_equal(tf.cast(scaled_weight(variable, 0.3, tf.bfloat16), tf.float32),
                                  tf.cast(want, tf.float32))


def test_sum_over_rows_does_not_overflow_in_fp16():
    np.testing.assert_allclose(sum_over_rows(tf.fill([4000, 2], tf.constant(100, tf.float16))), [400000.0] * 2)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rows_are_picked_and_put_back(dtype):
    x, rows = tf.cast(random(7, 3), dtype), tf.constant([1, 4, 6])
    upstream = random(3, 3, seed=1)
    y, (by_x, _) = gradients(lambda a, r: gather_rows(a, r), [x, tf.cast(rows, tf.int32)], upstream)
    np.testing.assert_array_equal(tf.cast(y, tf.float32), tf.cast(tf.gather(x, rows), tf.float32))
    want = np.zeros([7, 3], np.float32)
    want[rows.numpy()] = tf.cast(tf.cast(upstream, dtype), tf.float32)
    np.testing.assert_array_equal(tf.cast(by_x, tf.float32), want)
    back, (by_y, _) = gradients(lambda a, r: scatter_rows(a, r, tf.constant(7)), [y, rows], tf.cast(x, tf.float32))
    assert not np.any(tf.cast(back, tf.float32).numpy()[[0, 2, 3, 5]])
    np.testing.assert_array_equal(tf.cast(by_y, tf.float32), tf.cast(y, tf.float32))
