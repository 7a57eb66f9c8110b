"""FLOPs are counted by shapes that are known only while the graph runs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.measuring.flops import Tally


def flops_of(function, *arguments):
    """Traces ``function`` with unknown dimensions and returns (FLOPs on these arguments, uncounted types)."""
    tally = Tally()
    signature = [tf.TensorSpec([None] * np.ndim(a), tf.as_dtype(np.asarray(a).dtype)) for a in arguments]

    count = tally.counting(lambda *tensors: [function(*tensors)], signature)
    return float(count(*map(tf.constant, arguments))), tally.uncounted


def ones(*shape):
    return np.ones(shape, np.float32)


@pytest.mark.parametrize("function, arguments, expected", [
    (tf.matmul, (ones(3, 4), ones(4, 5)), 2 * 3 * 4 * 5),
    (lambda a, b: tf.matmul(a, b, transpose_a=True), (ones(4, 3), ones(4, 5)), 2 * 3 * 4 * 5),
    (lambda a, b: tf.matmul(a, b, transpose_b=True), (ones(2, 6, 3, 4), ones(2, 6, 5, 4)), 2 * 12 * 3 * 4 * 5),
    (lambda a, b: tf.matmul(a, b, adjoint_a=True), (ones(7, 4, 3), ones(7, 4, 5)), 2 * 7 * 3 * 4 * 5),
    (lambda a, b: tf.einsum("btd,dhk->bhtk", a, b), (ones(2, 3, 4), ones(4, 5, 6)), 2 * 2 * 3 * 4 * 5 * 6),
    (lambda a, b: tf.einsum("...td,...sd->...ts", a, b), (ones(2, 7, 3, 4), ones(2, 7, 5, 4)), 2 * 14 * 3 * 5 * 4),
    (lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), (ones(2, 5, 6, 3), ones(3, 3, 3, 8)), 2 * 2 * 30 * 8 * 27),
    (lambda x, k: tf.nn.conv1d(x, k, 2, "SAME"), (ones(2, 10, 3), ones(5, 3, 8)), 2 * 2 * 5 * 8 * 15),
    (lambda x, k: tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "SAME"), (ones(2, 5, 6, 3), ones(3, 3, 3, 2)),
     2 * 2 * 30 * 6 * 9),
])
def test_a_product_costs_twice_its_multiply_adds(function, arguments, expected):
    assert flops_of(function, *arguments) == (expected, set())


def test_only_what_the_result_needs_counts():
    def function(a, b):
        tf.matmul(b, a)
        return tf.matmul(a, b)

    assert flops_of(function, ones(3, 4), ones(4, 3))[0] == 2 * 3 * 4 * 3


def test_the_row_count_may_be_known_only_at_run_time():
    mask = np.array([True, False, True, True])
    assert flops_of(lambda x, m: tf.matmul(tf.boolean_mask(x, m), x, transpose_b=True), ones(4, 5), mask)[0] == \
        2 * 3 * 5 * 4


def test_loops_count_as_often_as_they_run():
    def function(a, times):
        array = tf.TensorArray(tf.float32, times, element_shape=[None, None])

        def body(step, x, array):
            inner = tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, tf.matmul(y, a)), (0, x))[1]
            return step + 1, inner, array.write(step, tf.matmul(inner, a))

        _, x, array = tf.while_loop(lambda step, *_: step < times, body, (0, a, array))
        return tf.reduce_sum(array.stack()) + tf.reduce_sum(x)

    assert flops_of(function, ones(4, 4), np.int32(5))[0] == 5 * 3 * 2 * 4 * 4 * 4


def test_products_in_called_functions_count():
    inner = tf.function(lambda a: tf.matmul(a, a), autograph=False)
    assert flops_of(lambda a: tf.matmul(inner(a), a), ones(4, 4)) == (256.0, set())
    assert not tf.config.functions_run_eagerly()
