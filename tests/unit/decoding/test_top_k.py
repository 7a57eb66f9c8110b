"""The one-pass top-k against TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoding.beam_search import top_k


@pytest.mark.parametrize(("size", "k"), [(5, 3), (8000, 8), (8000, 1), (8009, 8), (4099, 64)])
@pytest.mark.parametrize("levels", [0, 7])
def test_equals_tensorflow(size: int, k: int, levels: int):
    values = np.random.default_rng(size + k).standard_normal((3, 2, size)).astype(np.float32)
    if levels:  # many equal values: the first of them come first
        values = np.round(values * levels / 4)
    values[0, 0, ::3] = -np.inf
    values[2, 1] = 0.5
    best, index = tf.function(lambda x: top_k(x, k))(tf.constant(values))
    expected = tf.math.top_k(values, k)
    np.testing.assert_array_equal(best, expected.values)
    np.testing.assert_array_equal(index, expected.indices)


def test_padding_is_never_chosen():
    values = tf.fill([1, 1, 8009], float("-inf"))
    assert int(tf.reduce_max(top_k(values, 4)[1])) < 8009
