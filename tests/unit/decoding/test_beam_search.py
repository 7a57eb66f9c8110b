"""Beam search against brute force over all sequences, and its promises."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoding.beam_search import BeamResult, SearchSettings, beam_search, top_k

EOS, START = 1, 2
STATES = 997


@functools.cache
def compiled_search(beam: int, alpha: float, n_best: int, vocab: int, dtype: tf.DType,
                    least: float = float("-inf")) -> Callable[..., BeamResult]:
    """Returns the search as a graph with unknown batch: (tables ``[batch, STATES, vocab]``, limits ``[batch]``)."""
    @tf.function(input_signature=[tf.TensorSpec([None, STATES, vocab]), tf.TensorSpec([None], tf.int32)])
    def run(tables: tf.Tensor, limits: tf.Tensor) -> BeamResult:
        def step_fn(ids: tf.Tensor, step: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
            # The state travels through the cache beside a history that grows, and both must stay in line.
            state = (cache["state"] * 31 + ids + 1) % STATES
            total = cache["total"] + (step + 1) * ids
            history = tf.concat([cache["history"], ids[:, :, tf.newaxis, tf.newaxis]], 2)
            positions = tf.range(1, step + 2)[:, tf.newaxis]
            tf.debugging.assert_equal(tf.reduce_sum(history * positions, [2, 3]), total)
            logits = tf.cast(tf.gather(tables, state, batch_dims=1), dtype)
            return logits, {"state": state, "total": total, "history": history}

        batch = tf.shape(limits)[0]
        zeros = tf.zeros(tf.stack([batch, beam]), tf.int32)
        cache = {"state": zeros, "total": zeros, "history": tf.zeros(tf.stack([batch, beam, 0, 1]), tf.int32)}
        return beam_search(step_fn, cache, limits, SearchSettings(vocab, START, EOS, alpha, beam, n_best, least=least))

    return run


class RandomModel:
    """Scores that depend on the whole prefix, through a cache that carries a hash of it.

    Args:
      batch: number of sentences, each with scores of its own.
      vocab: number of ids.
      seed: what the scores follow from.
      eos_bonus: added to the logit of EOS.
    """

    def __init__(self, batch: int, vocab: int, seed: int = 0, eos_bonus: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        self.tables = rng.normal(0, 2, (batch, STATES, vocab)).astype(np.float32)
        self.tables[:, :, EOS] += eos_bonus
        self.vocab, self.batch = vocab, batch

    def log_probs(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
        state = 0
        for token in (START, *prefix):
            state = (state * 31 + token + 1) % STATES
        logits = self.tables[sentence, state].astype(np.float64)
        return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()

    def search(self, beam: int, alpha: float, max_lengths: Any, sentences: list[int] | None = None, n_best: int = 1,
               dtype: tf.DType = tf.float32, least: float = float("-inf")) -> BeamResult:
        tables = self.tables if sentences is None else self.tables[sentences]
        run = compiled_search(beam, alpha, n_best, self.vocab, dtype, least)
        return BeamResult(*(part.numpy() for part in run(tf.constant(tables), tf.constant(max_lengths, tf.int32))))

    def brute_force(self, sentence: int, alpha: float, max_length: int) -> list[tuple[float, tuple[int, ...]]]:
        """All finished sequences with their scores, best first."""
        words = [token for token in range(self.vocab) if token != EOS]
        found = []
        for length in range(1, max_length + 1):
            for prefix in itertools.product(words, repeat=length - 1):
                sequence = (*prefix, EOS)
                total = sum(self.log_probs(sentence, sequence[:i])[token] for i, token in enumerate(sequence))
                found.append((total / ((5 + length) / 6) ** alpha, sequence))
        return sorted(found, reverse=True)

    def score(self, sentence: int, sequence: tuple[int, ...], alpha: float) -> float:
        total = sum(self.log_probs(sentence, sequence[:i])[token] for i, token in enumerate(sequence))
        return total / ((5 + len(sequence)) / 6) ** alpha


def hypothesis(result: BeamResult, sentence: int, rank: int = 0) -> tuple[int, ...]:
    return tuple(int(i) for i in result.ids[sentence, rank, :result.lengths[sentence, rank]])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0, -1.0])
@pytest.mark.parametrize(("vocab", "max_length"), [(3, 4), (4, 4)])
def test_equals_brute_force(vocab: int, max_length: int, alpha: float):
    model = RandomModel(3, vocab, seed=vocab)
    n_best = 5
    result = model.search(beam=(vocab - 1) ** max_length, alpha=alpha, max_lengths=[max_length] * 3, n_best=n_best)
    for sentence in range(3):
        expected = model.brute_force(sentence, alpha, max_length)[:n_best]
        assert [hypothesis(result, sentence, rank) for rank in range(n_best)] == [ids for _, ids in expected]
        np.testing.assert_allclose(result.scores[sentence], [score for score, _ in expected], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.6, -1.0])
def test_a_finite_least_score_changes_nothing(alpha: float):
    model = RandomModel(8, 4, seed=5, eos_bonus=-1.0)
    limits = [0, 1, 2, 3, 4, 5, 6, 7]
    usual = model.search(3, alpha, limits, n_best=3)
    finite = model.search(3, alpha, limits, n_best=3, least=-1e30)
    np.testing.assert_array_equal(finite.ids, usual.ids)
    np.testing.assert_array_equal(finite.lengths, usual.lengths)
    np.testing.assert_array_equal(np.maximum(finite.scores, -1e20), np.maximum(usual.scores, -1e20))


def plain_beam_search(model: RandomModel, sentence: int, beam: int, alpha: float, limit: int,
                      n_best: int) -> list[tuple[float, tuple[int, ...]]]:
    """Beam search to the maximal length, with lists: (score, ids) of the finished ones, then of the others."""
    alive, finished = [(0.0, ())], []
    for _ in range(limit):
        candidates = sorted(((total + lp, (*prefix, token)) for total, prefix in alive
                             for token, lp in enumerate(model.log_probs(sentence, prefix))), reverse=True)[:2 * beam]
        finished += [(total / ((5 + len(ids)) / 6) ** alpha, ids) for total, ids in candidates if ids[-1] == EOS]
        finished = sorted(finished, reverse=True)[:beam]
        alive = [c for c in candidates if c[1][-1] != EOS][:beam]
    return (finished + [(total / ((5 + limit) / 6) ** alpha, ids) for total, ids in alive])[:n_best]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0, -1.0])
@pytest.mark.parametrize(("beam", "n_best", "eos_bonus"), [(4, 1, 1.0), (3, 2, 0.0), (3, 2, -1.0), (4, 1, 3.0)])
def test_stopping_early_changes_nothing(beam: int, n_best: int, eos_bonus: float, alpha: float):
    model = RandomModel(8, 7, seed=3, eos_bonus=eos_bonus)
    limits = [3, 12, 5, 1, 12, 7, 9, 2]
    result = model.search(beam, alpha, limits, n_best=n_best)
    for sentence, limit in enumerate(limits):
        expected = plain_beam_search(model, sentence, beam, alpha, limit, n_best)
        assert [hypothesis(result, sentence, rank) for rank in range(n_best)] == [ids for _, ids in expected]
        np.testing.assert_allclose(result.scores[sentence], [score for score, _ in expected], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("eos_bonus", [-20.0, 0.0, 2.0])
@pytest.mark.parametrize("beam", [1, 3])
def test_result_does_not_depend_on_the_batch(beam: int, eos_bonus: float):
    model = RandomModel(6, 9, seed=5, eos_bonus=eos_bonus)
    limits = [4, 15, 1, 8, 15, 0]
    together = model.search(beam, 0.6, limits, n_best=beam)
    for sentence, limit in enumerate(limits):
        alone = model.search(beam, 0.6, [limit], [sentence], n_best=beam)
        length = alone.ids.shape[2]
        np.testing.assert_array_equal(together.ids[sentence, :, :length], alone.ids[0])
        assert not together.ids[sentence, :, length:].any()
        np.testing.assert_array_equal(together.lengths[sentence], alone.lengths[0])
        np.testing.assert_allclose(together.scores[sentence], alone.scores[0], rtol=1e-6)


@pytest.mark.parametrize("eos_bonus", [-20.0, 0.0, 2.0])
def test_form_of_the_result(eos_bonus: float):
    model = RandomModel(8, 6, seed=7, eos_bonus=eos_bonus)
    limits = np.array([3, 10, 5, 1, 10, 7, 9, 2])
    result = model.search(4, 0.6, limits, n_best=3)
    assert result.ids.dtype == np.int32 and result.lengths.dtype == np.int32 and result.scores.dtype == np.float32
    assert (result.lengths <= limits[:, None]).all()
    for sentence, rank in np.ndindex(8, 3):
        ids, length = result.ids[sentence, rank], result.lengths[sentence, rank]
        assert not ids[length:].any()
        assert EOS not in ids[:max(length - 1, 0)]
        if length:
            expected = model.score(sentence, hypothesis(result, sentence, rank), 0.6)
            np.testing.assert_allclose(result.scores[sentence, rank], expected, rtol=1e-5, atol=1e-5)
    for sentence in range(8):  # finished ones first, each kind best first
        kinds = [EOS in hypothesis(result, sentence, rank) for rank in range(3)]
        assert kinds == sorted(kinds, reverse=True)
        for kind in (True, False):
            scores = [s for s, k in zip(result.scores[sentence], kinds, strict=True) if k == kind]
            assert scores == sorted(scores, reverse=True)


def test_fewer_sequences_than_asked_for():
    """With one token at most and no word possible, EOS alone is there."""
    model = RandomModel(2, 3, seed=2)
    model.tables[:, :, [0, 2]] = -np.inf
    result = model.search(3, 0.6, [4, 4], n_best=3)
    np.testing.assert_array_equal(result.lengths, [[1, 0, 0]] * 2)
    np.testing.assert_allclose(result.scores, [[0.0, -np.inf, -np.inf]] * 2, atol=1e-6)
    assert not result.ids[:, 1:].any()


def test_empty_batch_and_no_room():
    model = RandomModel(2, 4)
    assert model.search(2, 0.6, [0, 0]).ids.shape == (2, 1, 0)

    result = beam_search(lambda ids, step, cache: (tf.zeros([0, 2, 4]), cache), {}, tf.zeros([0], tf.int32),
                         SearchSettings(4, START, EOS, 0.6, beam_size=2))
    assert result.ids.shape == (0, 1, 0)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_half_precision_logits_are_normalised_in_float32(dtype: tf.DType):
    model = RandomModel(3, 5, seed=4)
    model.tables = tf.cast(tf.cast(model.tables, dtype), tf.float32).numpy()
    half, full = model.search(3, 0.6, [6] * 3, dtype=dtype), model.search(3, 0.6, [6] * 3)
    np.testing.assert_array_equal(half.ids, full.ids)
    np.testing.assert_array_equal(half.scores, full.scores)


@pytest.mark.parametrize("wrong", [{"n_best": 3}, {"n_best": 0}, {"vocab_size": 1}])
def test_impossible_sizes(wrong: dict[str, int]):
    sizes = {"beam_size": 2, "vocab_size": 4, "n_best": 1, **wrong}
    with pytest.raises(ValueError, match="beam_size"):
        beam_search(lambda ids, step, cache: (tf.zeros([1, 2, 4]), cache), {}, tf.constant([3]),
                    SearchSettings(start_id=0, eos_id=1, alpha=0.6, **sizes))


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
