"""Portable forms of operations compute what the operations do."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.portable import scan


@pytest.mark.parametrize("steps", [1, 8, 13])
@pytest.mark.parametrize("portable", [False, True])
def test_a_scan_of_several_values(steps: int, portable: bool):
    """Running sums, and the sums of these, of rows whose number is known only when the graph runs."""
    x = np.random.default_rng(0).normal(size=[steps, 2, 3]).astype(np.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 3])], autograph=False)
    def sums(x: tf.Tensor) -> list[tf.Tensor]:
        nothing = tf.zeros([tf.shape(x)[1], 3])
        return scan(lambda values, one: (values[0] + one[0], values[1] + values[0] + one[0]), [x], [nothing, nothing])

    with forward_pass(portable=portable):
        found = sums(x)
    np.testing.assert_allclose(found[0], np.cumsum(x, 0), atol=1e-5)
    np.testing.assert_allclose(found[1], np.cumsum(np.cumsum(x, 0), 0), atol=1e-4)
