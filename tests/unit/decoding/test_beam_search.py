"""Beam search against brute force over all sequences of a tiny vocabulary."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoding.beam_search import beam_search, length_penalty

EOS = 1


def random_model(batch, vocab, depth, seed, sharpness=2.0):
    """Logits that depend on the whole prefix: table[batch][code of the prefix] → [vocab]."""
    rng = np.random.default_rng(seed)
    codes = sum(vocab ** d for d in range(depth + 1)) * vocab
    return (rng.normal(size=(batch, codes, vocab)) * sharpness).astype(np.float32)


def step_function(table, vocab):
    tables = tf.constant(table)

    def step(ids, step_number, cache):
        code = tf.where(step_number == 0, tf.zeros_like(ids), cache["code"] * vocab + ids + 1)
        logits = tf.gather(tables, code, batch_dims=1)
        # A growing tensor rides along, to see that it is reordered with its hypothesis.
        return logits, {"code": code, "trail": tf.concat([cache["trail"], ids[:, :, None]], 2)}

    return step


def initial_cache(batch, beam):
    return {"code": tf.zeros([batch, beam], tf.int32), "trail": tf.zeros([batch, beam, 0], tf.int32)}


def log_softmax(x):
    x = x.astype(np.float64)
    return x - np.log(np.exp(x - x.max()).sum()) - x.max()


def brute_force(table, vocab, max_length, alpha):
    """Every sequence that ends with EOS within max_length: [(score, ids)], best first."""
    found = []
    for length in range(1, max_length + 1):
        for prefix in itertools.product([i for i in range(vocab) if i != EOS], repeat=length - 1):
            ids, code, total = [*prefix, EOS], 0, 0.0
            for position, token in enumerate(ids):
                total += log_softmax(table[code])[token]
                code = (code * vocab if position or code else 0) + token + 1
            found.append((total / ((5 + length) / 6) ** alpha, ids))
    return sorted(found, key=lambda row: -row[0])


def search(table, vocab, beam, max_lengths, alpha, n_best=1):
    batch = table.shape[0]

    @tf.function
    def run(lengths):
        return beam_search(step_function(table, vocab), initial_cache(batch, beam), batch_size=tf.shape(lengths)[0],
                           beam_size=beam, vocab_size=vocab, alpha=alpha, max_lengths=lengths, start_id=0, eos_id=EOS,
                           n_best=n_best)

    return [np.asarray(part) for part in run(tf.constant(max_lengths, tf.int32))]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", range(3))
def test_equals_brute_force(alpha, seed):
    vocab, max_length, batch, n_best = 4, 4, 3, 5
    table = random_model(batch, vocab, max_length, seed)
    ids, scores, lengths = search(table, vocab, 81, [max_length] * batch, alpha, n_best)
    for row in range(batch):
        expected = brute_force(table[row], vocab, max_length, alpha)[:n_best]
        np.testing.assert_allclose(scores[row], [score for score, _ in expected], rtol=1e-5)
        for place, (_, sequence) in enumerate(expected):
            assert ids[row, place, :lengths[row, place]].tolist() == sequence


def test_a_sentence_does_not_depend_on_the_batch():
    vocab, batch = 7, 6
    table = random_model(batch, vocab, 5, 0, sharpness=1.0)
    limits = [1, 2, 3, 5, 5, 4]
    ids, scores, lengths = search(table, vocab, 3, limits, 0.6, n_best=3)
    for row in range(batch):
        one = search(table[row:row + 1], vocab, 3, limits[row:row + 1], 0.6, n_best=3)
        np.testing.assert_allclose(scores[row], one[1][0], rtol=1e-6)
        np.testing.assert_array_equal(lengths[row], one[2][0])
        width = one[0].shape[2]
        np.testing.assert_array_equal(ids[row, :, :width], one[0][0])
        assert not ids[row, :, width:].any()


def test_nothing_follows_eos_and_limits_hold():
    vocab, batch = 6, 5
    limits = np.array([1, 2, 3, 4, 4])
    ids, scores, lengths = search(random_model(batch, vocab, 4, 3, 0.5), vocab, 4, limits, 1.0, n_best=4)
    assert (lengths <= limits[:, None]).all()
    for row, place in np.ndindex(batch, 4):
        sequence = ids[row, place]
        assert not sequence[lengths[row, place]:].any()
        assert EOS not in sequence[:lengths[row, place] - 1]


def test_the_best_does_not_depend_on_how_many_are_asked_for():
    """Asking for more makes the search stop later."""
    table = random_model(8, 9, 4, 5, 1.5)
    few, many = (search(table, 9, 5, [4] * 8, 0.6, n_best=n) for n in (1, 5))
    np.testing.assert_allclose(few[1][:, 0], many[1][:, 0], rtol=1e-6)


def test_beam_of_one_is_greedy():
    vocab, length = 6, 4
    table = random_model(1, vocab, length, 8)
    table[..., EOS] -= 100.0  # never ends by itself
    ids, _, lengths = search(table, vocab, 1, [length], 0.0)
    code, expected = 0, []
    for position in range(length):
        token = int(table[0, code].argmax())
        expected.append(token)
        code = (code * vocab if position else 0) + token + 1
    assert ids[0, 0].tolist() == expected and lengths[0, 0] == length


def test_half_precision_logits_and_an_empty_batch():
    result = beam_search(
        lambda ids, step, cache: (tf.zeros([tf.shape(ids)[0], 2, 5], tf.bfloat16), cache), (),
        batch_size=tf.constant(0), beam_size=2, vocab_size=5, alpha=0.6, max_lengths=tf.zeros([0], tf.int32),
        start_id=0, eos_id=EOS)
    assert result.ids.shape[0] == 0 and result.scores.dtype == tf.float32


def test_length_penalty_is_that_of_wu():
    np.testing.assert_allclose(length_penalty(tf.constant(7), 0.6), (12 / 6) ** 0.6, rtol=1e-6)
