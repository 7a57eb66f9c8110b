import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.dropout import add_dropped, dropout, keep_mask, keep_mask_of, keep_scale
from open_seq2seq.parts.forward_pass import forward_pass

SHAPE = [203, 301]


def dropped(x, rate, seed=1, batch=0):
    with forward_pass(seed, batch):
        return dropout(x, rate, True)


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3, 0.5, 0.9])
def test_kept_share_and_expectation(rate):
    y = dropped(tf.ones(SHAPE), rate).numpy()
    error = 5 * np.sqrt(rate * (1 - rate) / y.size)
    assert abs(np.mean(y != 0) - (1 - rate)) < error + 1 / 65536
    assert abs(y.mean() - 1) < error / (1 - rate)
    np.testing.assert_allclose(np.unique(y), [0, keep_scale(rate)], rtol=1e-6)


def test_same_seed_same_mask_other_seed_other_mask():
    x = tf.ones(SHAPE)
    first = dropped(x, 0.5).numpy()
    np.testing.assert_array_equal(first, dropped(x, 0.5).numpy())
    assert 0.4 < np.mean(first != dropped(x, 0.5, seed=2).numpy()) < 0.6
    assert 0.4 < np.mean(first != dropped(x, 0.5, batch=1).numpy()) < 0.6
    with forward_pass(1, 0):
        one, two = dropout(x, 0.5, True), dropout(x, 0.5, True)
    assert 0.4 < np.mean(one.numpy() != two.numpy()) < 0.6


def test_neighbours_are_independent():
    with forward_pass(3, 0):
        keep = keep_mask([1 << 16], 0.5).numpy().astype(float)
    for distance in (1, 2, 3, 4):  # four elements come from one random word
        assert abs(np.corrcoef(keep[:-distance], keep[distance:])[0, 1]) < 0.02


@pytest.mark.parametrize("static", [[3, None, 4], [3, None, 5], [None, None, None], [0, 4], None])
def test_the_mask_of_a_tensor_is_that_of_its_shape(static):
    shape = [3, 7, 4] if static is None or None in static and 5 not in static else [size or 0 for size in static]

    @tf.function(input_signature=[tf.TensorSpec(static, tf.float32)])
    def drawn(x):
        with forward_pass(3, 0):
            by_tensor = keep_mask_of(x, 0.3)
        with forward_pass(3, 0):
            return by_tensor, keep_mask(tf.shape(x), 0.3)

    masks = drawn(tf.zeros(shape))
    np.testing.assert_array_equal(*masks)
    assert masks[0].shape == shape


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16])
def test_gradient_uses_the_same_mask(dtype):
    x = tf.ones(SHAPE, dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = dropped(x, 0.3)
    gradient = tape.gradient(y, x)
    assert gradient.dtype == dtype
    np.testing.assert_array_equal(tf.cast(gradient, tf.float32), tf.cast(y, tf.float32))


def test_identity_when_off():
    x = tf.random.stateless_normal(SHAPE, [0, 0])
    assert dropout(x, 0.5, False) is x
    assert dropout(x, 0.0, True) is x


def test_rates_outside_the_range_are_refused():
    for rate in (-0.1, 1.0):
        with pytest.raises(ValueError, match="dropout rate"):
            dropout(tf.ones([2]), rate, True)


def test_empty_tensors():
    assert dropped(tf.ones([0, 4]), 0.1).shape == [0, 4]


def test_residual_is_kept_and_update_is_masked():
    x, update = tf.random.stateless_normal(SHAPE, [0, 0]), tf.ones(SHAPE)
    with tf.GradientTape() as tape:
        tape.watch([x, update])
        with forward_pass(1, 0):
            y = add_dropped(x, update, 0.2, True)
    by_x, by_update = tape.gradient(y, [x, update])
    mask = np.round((y - x).numpy())
    np.testing.assert_allclose(y, x + mask, atol=1e-6)
    assert set(np.unique(mask)) == {0, 1}
    np.testing.assert_array_equal(by_x, np.ones(SHAPE))
    np.testing.assert_array_equal(by_update, mask)
    np.testing.assert_allclose(add_dropped(x, update, 0.2, False), x + 1)
