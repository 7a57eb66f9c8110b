"""The neural cache, compared with its formula in NumPy, whatever the chunks are."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.models.lm.language_model import NeuralCache, activation_penalty, temporal_penalty
from open_seq2seq.parts.carried_state import carried_values
from open_seq2seq.parts.component import carried_states
from open_seq2seq.parts.forward_pass import forward_pass

SIZE, HIDDEN, TIME, WEIGHT, SCALE = 4, 3, 9, 0.3, 0.7


def by_formula(hidden, ids, negative_log_probs):
    found = []
    for step in range(TIME):
        recent = range(max(0, step - SIZE), step)
        if not recent:
            found.append(negative_log_probs[step])
            continue
        scores = np.exp([SCALE * hidden[step] @ hidden[i] for i in recent])
        cached = sum(score for score, i in zip(scores, recent, strict=True) if ids[i] == ids[step]) / scores.sum()
        found.append(-np.log((1 - WEIGHT) * np.exp(-negative_log_probs[step]) + WEIGHT * cached))
    return found


@pytest.mark.parametrize("cuts", [(9,), (2, 3, 9), (1, 2, 3, 4, 5, 6, 7, 8, 9)])
def test_equals_the_formula(cuts):
    rng = np.random.default_rng(0)
    hidden, ids = rng.normal(size=(2, TIME, HIDDEN)).astype(np.float32), rng.integers(0, 3, (2, TIME)).astype(np.int32)
    negative_log_probs = rng.uniform(0.5, 4.0, (2, TIME)).astype(np.float32)
    cache, begin, found = NeuralCache(HIDDEN, SIZE, WEIGHT, SCALE), 0, []
    states = carried_states(cache)
    for state in states.values():
        state.allocate(1, 2)
    for end in cuts:
        with forward_pass(carried=carried_values(states.values(), 2, 0, begin == 0)):
            part = slice(begin, end)
            # The last column is padding.
            padded = [np.concatenate([x[:, part], x[:, :1]], 1) for x in (hidden, ids, negative_log_probs)]
            found.append(cache(*map(tf.constant, padded), tf.fill([2], end - begin)).numpy()[:, :-1])
        begin = end
    expected = [by_formula(*row) for row in zip(hidden, ids, negative_log_probs, strict=True)]
    np.testing.assert_allclose(np.concatenate(found, 1), expected, rtol=1e-4)


def test_penalties_leave_out_padding():
    outputs = tf.constant([[[1.0, 1.0], [3.0, 1.0], [9.0, 9.0]], [[2.0, 0.0], [9.0, 9.0], [9.0, 9.0]]])
    lengths = tf.constant([2, 1])
    term = activation_penalty(outputs, lengths, 2.0)
    assert (float(term.sum), float(term.units), term.weight) == (1.0 + 5.0 + 2.0, 3.0, 2.0)
    term = temporal_penalty(outputs, lengths, 1.0)
    assert (float(term.sum), float(term.units)) == (2.0, 1.0)
