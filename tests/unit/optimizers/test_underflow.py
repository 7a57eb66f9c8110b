"""Shares of lost gradients against NumPy: constructed zeros, and conversion to the half types itself."""

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers.dtype import BFLOAT16, FLOAT16, HALF_TYPES
from open_seq2seq.optimizers.underflow import count_losable, count_lost, group_names, layer_group, underflow_shares

RNG = np.random.default_rng(0)


def spread(shape, low, high):
    """Numbers of either sign whose log2 is uniform in [low, high]."""
    return (RNG.choice([-1, 1], shape) * np.exp2(RNG.uniform(low, high, shape))).astype(np.float32)


def reference_lost(gradient):
    """Counts element by element: a zero is lost unless its row or its column is zero altogether."""
    matrix = gradient.reshape(-1, gradient.shape[-1]) if gradient.ndim > 1 else gradient.reshape(-1, 1)
    if not matrix.any():
        return matrix.size, matrix.size
    lost = judged = 0
    for i, j in np.ndindex(matrix.shape):
        if matrix[i].any() and matrix[:, j].any():
            judged += 1
            lost += matrix[i, j] == 0
    return lost, judged


@pytest.mark.parametrize("shape", [(7, 5), (3, 3, 4, 6), (1, 9), (9, 1), (8,), (), (2, 3, 4)])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_lost_numbers_equal_a_count_one_by_one(shape, share):
    gradient = np.where(RNG.uniform(size=shape) < share, 0.0, spread(shape, -3, 3)).astype(np.float32)
    if gradient.ndim > 1:
        gradient[..., 0, :] *= RNG.integers(0, 2)
        gradient[..., -1] = 0.0
    assert tuple(float(c) for c in count_lost(tf.constant(gradient))) == reference_lost(np.atleast_1d(gradient))


def test_infinite_numbers_are_not_lost_and_an_all_zero_gradient_is():
    assert [float(c) for c in count_lost(tf.constant([[np.inf, np.nan], [0.0, 1.0]]))] == [1.0, 4.0]
    assert [float(c) for c in count_lost(tf.zeros([3, 5]))] == [15.0, 15.0]
    assert [float(c) for c in count_lost(tf.zeros([4]))] == [4.0, 4.0]


def test_rows_of_an_embedding_are_added_up_first():
    values = tf.constant([[1.0, 2.0], [-1.0, 5.0], [3.0, 4.0]])
    slices = tf.IndexedSlices(values, tf.constant([4, 4, 0]), tf.constant([6, 2]))
    assert [float(c) for c in count_lost(slices)] == [1.0, 4.0]
    assert [float(c) for c in count_losable(slices, FLOAT16)] == [0.0, 3.0]


@pytest.mark.parametrize("half", HALF_TYPES.values(), ids=HALF_TYPES)
@pytest.mark.parametrize("scale", [1.0, 2.0**10, 1000.0])
def test_losable_numbers_equal_conversion_by_numpy(half, scale):
    """NumPy rounds to nearest even and keeps subnormals; ml_dtypes' bfloat16 likewise, so normal numbers are given."""
    import ml_dtypes

    kind = np.float16 if half is FLOAT16 else ml_dtypes.bfloat16
    gradient = spread((200, 50), -45, 10) if half is FLOAT16 else spread((200, 50), -120, 110)
    gradient[RNG.uniform(size=gradient.shape) < 0.1] = 0.0
    scaled = (gradient * np.float32(scale)).astype(np.float32)
    with np.errstate(over="ignore"):
        converted = scaled.astype(kind).astype(np.float32)
    expected = [float(((converted == 0) & (scaled != 0)).sum()), float((scaled != 0).sum())]
    assert [float(c) for c in count_losable(tf.constant(scaled), half)] == expected


@pytest.mark.parametrize("value", [2.0**-24, 2.0**-25, np.nextafter(np.float32(2.0**-25), np.float32(1)), 65519.99,
                                   65520.0, 65504.0, 1.0])
def test_the_ends_of_float16_are_numpys(value):
    number = np.float32(value)
    with np.errstate(over="ignore"):
        converted = number.astype(np.float16)
    assert bool(FLOAT16.lost(tf.constant(number))) == (converted == 0)
    assert bool(FLOAT16.overflowing(tf.constant(number))) == bool(np.isinf(converted))


def test_the_upper_end_of_bfloat16_is_that_of_conversion():
    import ml_dtypes

    tie = np.float32(BFLOAT16.infinite_from)
    for number in (tie, np.nextafter(tie, np.float32(0))):
        with np.errstate(over="ignore"):
            infinite = bool(np.isinf(number.astype(ml_dtypes.bfloat16).astype(np.float32)))
        assert bool(BFLOAT16.overflowing(tf.constant(number))) == infinite


def test_shares_are_those_of_groups_and_of_all():
    gradients = {"encoder/layer_0/a": tf.constant([[0.0, 1.0], [1.0, 1.0]]), "encoder/layer_0/b": tf.ones([2, 2]),
                 "decoder/kernel": tf.constant([[0.0, 1.0], [1.0, 0.0]])}
    shares = underflow_shares(gradients, [*gradients, "unused/w"])
    np.testing.assert_allclose(shares, [1 / 8, 2 / 4, 0.0, 3 / 12], rtol=1e-6)


def test_what_half_arithmetic_loses_is_what_float32_foretells():
    """A product in float16 on tiny numbers: both ways of counting give one share, dead units left out."""
    x, dy = spread((1, 40), -12, 0), spread((1, 30), -30, -22)
    x[0, 0], x[0, 5], dy[0, 0] = 1.0, 0.0, 2.0**-20  # every other row and column keeps a number
    exact = x.T @ dy
    rounded = tf.cast(tf.matmul(tf.constant(x, tf.float16), tf.constant(dy * 2.0**12, tf.float16), transpose_a=True),
                      tf.float32)
    seen = [float(c) for c in count_lost(rounded)]
    foretold = [float(c) for c in count_losable(tf.constant(exact * 2.0**12), FLOAT16)]
    assert seen[1] == foretold[1] == 39 * 30 and abs(seen[0] - foretold[0]) <= 0.01 * seen[1]
    assert 0.05 < seen[0] / seen[1] < 0.95


@pytest.mark.parametrize(("name", "group"), [
    ("encoder/layer_0/self_attention/query", "encoder/layer_0"),
    ("decoder/layer_12/feed_forward/output_bias", "decoder/layer_12"),
    ("encoder/embedding/table", "encoder/embedding"),
    ("encoder/output_norm/gamma", "encoder/output_norm"),
    ("encoder/dense/kernel", "encoder/dense"),
    ("encoder/stack/block_3/conv_1/kernel", "encoder/stack/block_3"),
    ("encoder/block_3/conv_1/norm/gamma", "encoder/block_3"),
    ("encoder/cell/gates/input/kernel", "encoder/cell"),
    ("encoder/cell/kernel_0", "encoder/cell"),
    ("decoder/kernel", "decoder"),
    ("kernel", "kernel"),
])
def test_group_of_a_name(name, group):
    assert layer_group(name) == group


def test_groups_keep_the_order_of_names():
    names = ["encoder/b/x", "encoder/a/x", "encoder/b/y"]
    assert list(group_names(names).items()) == [("encoder/b", ["encoder/b/x", "encoder/b/y"]),
                                                ("encoder/a", ["encoder/a/x"])]
