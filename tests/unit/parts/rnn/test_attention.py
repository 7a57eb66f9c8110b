"""Attention over the source in half precision."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.rnn.attention import GlobalAttention, MonotonicAttention


@pytest.mark.parametrize("kind", [GlobalAttention, MonotonicAttention])
@pytest.mark.parametrize("normalized", [False, True])
def test_additive_scores_of_all_steps_are_computed_in_float32_on_cpus(kind, normalized):
    attention = kind(kind="bahdanau", memory_size=6, query_size=5, units=64, normalized=normalized)
    values = tf.random.stateless_normal([2, 7, 6], [1, 2], dtype=tf.bfloat16)
    queries = tf.random.stateless_normal([2, 3, 5], [3, 4], dtype=tf.bfloat16)
    with tf.GradientTape() as tape:
        tape.watch([values, queries])
        memory = attention.memory(values, tf.constant([7, 4]))
        scores = attention.scores_of_all_steps(queries, memory)
        weights = attention.all_steps(queries, memory)
    query, keys = (tf.cast(tensor, tf.float32).numpy() for tensor in (attention.project(queries), memory.keys))
    expected = np.tanh(query[:, :, np.newaxis] + keys[:, np.newaxis]) @ attention.direction().numpy()
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert weights.dtype == tf.float32 and not weights.numpy()[1, :, 4:].any()
    gradients = tape.gradient(weights, [values, queries, attention.query_kernel], tf.ones_like(weights) * weights)
    assert [gradient.dtype for gradient in gradients] == [tf.bfloat16, tf.bfloat16, tf.float32]
    assert all(np.isfinite(tf.cast(gradient, tf.float32)).all() for gradient in gradients)
