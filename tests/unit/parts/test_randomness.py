from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.randomness import example_seeds, example_uniforms

BITS = 2**64 - 1


def split_mix(state: int) -> int:
    """Returns the output of SplitMix64 for the state, as its authors' ``splitmix64.c`` computes it."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & BITS
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & BITS
    return state ^ (state >> 31)


@pytest.mark.parametrize("form", [lambda function: function, tf.function], ids=["eager", "traced"])
def test_uniforms_of_an_example_are_those_of_splitmix64(form):
    examples, epoch = tf.constant([0, 5, 2**40 - 1], tf.int64), tf.constant(2, tf.int64)
    seeds = example_seeds(11, examples, epoch, 3).numpy()
    numbers = form(lambda: example_uniforms(11, examples, epoch, 4, 3))().numpy()
    for row, (first, second) in zip(numbers, seeds.tolist(), strict=True):
        state = split_mix((split_mix(first & BITS) + second) & BITS)
        expected = [split_mix((state + number * 0x9E3779B97F4A7C15) & BITS) >> 40 for number in range(1, 5)]
        np.testing.assert_array_equal(row * 2.0**24, expected)
