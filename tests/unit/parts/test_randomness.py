from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.forward_pass import current_pass, forward_pass
from open_seq2seq.parts.randomness import example_seeds, example_uniforms, next_seed, next_words

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


def philox(key: int, counter: int) -> list[int]:
    """Returns a block of four words of Philox4x32-10, as in Salmon et al. 2011, section 3.3."""
    words, keys = ([value >> (32 * n) & 0xFFFFFFFF for n in range(count)] for value, count in ((counter, 4), (key, 2)))
    for _ in range(10):
        first, second = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [second >> 32 ^ words[1] ^ keys[0], second & 0xFFFFFFFF,
                 first >> 32 ^ words[3] ^ keys[1], first & 0xFFFFFFFF]
        keys = [(key + step) & 0xFFFFFFFF for key, step in zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)]
    return words


@pytest.mark.parametrize("form", [lambda function: function, tf.function,
                                  lambda function: tf.function(function, jit_compile=True)],
                         ids=["eager", "graph", "xla"])
def test_words_are_those_of_philox_with_the_draw_above_the_count(form):
    def draws():
        with forward_pass(5, 7):
            return current_pass().key, next_words(3), next_seed(), next_words(9)

    key, first, _, third = (tensor.numpy() for tensor in form(draws)())
    for draw, words in ((1, first), (3, third)):
        blocks = [philox(int(key[0]), (draw << 64) + block) for block in range(5)]
        expected = np.array(sum(blocks, []), np.uint32).view(np.int64)
        np.testing.assert_array_equal(words, expected[:len(words)])


def test_a_seed_draws_the_same_numbers_under_xla():
    def draws():
        with forward_pass(5, 7):
            return (tf.random.stateless_uniform([3, 7], next_seed(), alg="philox"),
                    tf.random.stateless_normal([5], next_seed(), alg="philox"))

    for plain, compiled in zip(draws(), tf.function(draws, jit_compile=True)(), strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-6)


def test_keys_differ_by_run_and_micro_batch():
    def key(seed, micro_batch):
        with forward_pass(seed, micro_batch):
            return int(current_pass().key[0])

    keys = {key(seed, batch) for seed in (0, 1, 2**43 - 1) for batch in (0, 1, 2**40)}
    assert len(keys) == 9 and key(1, 1) in keys
    with pytest.raises(RuntimeError, match="forward_pass"):
        next_words(2)
