"""Greedy search is a beam of 1, to the bit; what is drawn is distributed as the model says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoding.beam_search import BeamResult, SearchSettings, beam_search, length_penalty
from open_seq2seq.decoding.sampling import Sampling, _draw, _tempered, greedy_search, sample, uniform_numbers
from tests.unit.decoding.test_beam_search import EOS, START, STATES, RandomModel

DRAWN = 20_000
LOGITS = np.array([0.3, -1.0, 2.0, 0.9, -0.4, 1.9])


def stepped(model: RandomModel, are_log_probs: bool = False) -> Any:
    """Returns a step function: like ``compiled_search``'s, scores follow from a hash of all that was written."""
    def step_fn(ids: tf.Tensor, step: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        state = (cache * 31 + ids + 1) % STATES
        logits = tf.gather(tf.constant(model.tables), state, batch_dims=1)
        return tf.nn.log_softmax(logits) if are_log_probs else logits, state

    return step_fn


@pytest.mark.parametrize("are_log_probs", [False, True])
@pytest.mark.parametrize(("vocab", "alpha", "eos_bonus"), [(5, 0.6, 0.0), (9, 0.0, 2.0), (2000, -1.0, 5.0),
                                                           (7, 1.0, -30.0)])
def test_greedy_search_is_a_beam_of_one(vocab: int, alpha: float, eos_bonus: float, are_log_probs: bool):
    model = RandomModel(12, vocab, seed=vocab, eos_bonus=eos_bonus)
    model.tables[3, :, EOS] = -np.inf
    limits = tf.constant([7, 1, 0, 8, 5, 3, 8, 2, 0, 4, 7, 6])
    settings = SearchSettings(vocab, START, EOS, alpha, are_log_probs=are_log_probs)
    cache = tf.zeros([12, 1], tf.int32)
    greedy = greedy_search(stepped(model, are_log_probs), cache, limits, settings)
    beam = beam_search(stepped(model, are_log_probs), cache, limits, settings)
    for one, other in zip(greedy, beam, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("options", [{}, {"top_p": 0.9}, {"top_p": 0.35, "top_k": 900}])
@pytest.mark.parametrize("temperature", [0.1, 0.7, 1.0, 1.9, 1e-44])
def test_scalars_draw_what_constants_draw(temperature: float, options: dict[str, Any]):
    # In compiled functions, also where a rounding of the probabilities decides: there are many draws from many ids.
    logits = tf.constant(np.random.default_rng(3).normal(0.0, 2.0, (1, 64, 3000)), tf.float32)
    uniform = uniform_numbers(1, tf.zeros([1], tf.int64), tf.constant(0), 64)

    def ids(temperature: Any, top_p: Any) -> tf.Tensor:
        sampling = Sampling(temperature, options.get("top_k"), top_p if "top_p" in options else None)
        return _tempered(logits, temperature), _draw(logits, uniform, sampling)

    expected = tf.function(lambda: ids(temperature, options.get("top_p")))()
    scalars = tf.constant(temperature), tf.constant(options.get("top_p", 1.0))
    for found, wanted in zip(tf.function(ids)(*scalars), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def drawn(logits: np.ndarray, count: int = DRAWN, num_samples: int = 1, limit: int = 1, alpha: float = 0.0,
          **sampling: Any) -> BeamResult:
    """Samples from one distribution at each step, for so many examples."""
    table = tf.constant(logits, tf.float32)

    def step_fn(ids: tf.Tensor, step: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        return tf.broadcast_to(table, [count, num_samples, len(logits)]), cache

    settings = SearchSettings(len(logits), start_id=0, eos_id=1, alpha=alpha, n_best=num_samples)
    result = sample(step_fn, (), tf.fill([count], limit), settings, Sampling(**sampling), tf.range(count))
    return BeamResult(*(part.numpy() for part in result))


def softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def assert_distributed(ids: np.ndarray, expected: np.ndarray) -> None:
    """Every count is within five standard deviations, and what is impossible does not come."""
    counts = np.bincount(ids.ravel(), minlength=len(expected))
    deviations = np.sqrt(ids.size * expected * (1 - expected))
    assert (np.abs(counts - ids.size * expected) <= 5 * deviations).all(), (counts / ids.size, expected)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_frequencies_are_the_softmax(temperature: float):
    assert_distributed(drawn(LOGITS, temperature=temperature).ids, softmax(LOGITS / temperature))


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.9}])
@pytest.mark.parametrize("temperature", [1e-30, 1e-37, 1e-38, 1e-44])
def test_a_tiny_temperature_draws_the_likeliest(temperature: float, options: dict[str, Any]):
    # 900 / 1e-37 is not a number of FP32, and neither is 0 / 1e-44 where such a divisor counts as 0.
    result = drawn(np.array([0.0, 3.0, 900.0, -np.inf]), count=20, temperature=temperature, **options)
    assert (result.ids == 2).all() and np.isfinite(result.scores).all()


@pytest.mark.parametrize(("options", "kept"), [
    ({"top_k": 3}, [2, 5, 3]), ({"top_k": 99}, [0, 1, 2, 3, 4, 5]), ({"top_p": 0.7}, [2, 5]),
    ({"top_p": 1e-300}, [2]), ({"top_p": 1e-40, "top_k": 2}, [2]),
    ({"top_p": 0.8}, [2, 5, 3]), ({"top_p": 1.0}, [0, 1, 2, 3, 4, 5]),
    ({"top_k": 3, "top_p": 0.8}, [2, 5]), ({"top_k": 2, "top_p": 0.9}, [2, 5])])
def test_only_the_likeliest_are_drawn(options: dict[str, Any], kept: list[int]):
    # Probabilities: 0.39 and 0.35 of the two likeliest, 0.13 of the third.
    expected = np.zeros(len(LOGITS))
    expected[kept] = softmax(LOGITS[kept])
    assert_distributed(drawn(LOGITS, **options).ids, expected)


def test_steps_and_samples_are_independent():
    result = drawn(LOGITS, num_samples=2, limit=2)
    first = result.ids[:, :, 0]
    going_on = result.ids[first != EOS]  # ids of both steps
    without_end = np.where(np.arange(6) == EOS, 0.0, softmax(LOGITS))
    without_end /= without_end.sum()
    assert_distributed(going_on[:, 0] * 6 + going_on[:, 1], np.outer(without_end, softmax(LOGITS)).ravel())
    # Samples are ordered by score, so pairs are counted without their order.
    pairs = np.sort(first, axis=1)
    both = np.outer(softmax(LOGITS), softmax(LOGITS))
    assert_distributed(pairs[:, 0] * 6 + pairs[:, 1], (np.triu(both + both.T, 1) + np.diag(np.diag(both))).ravel())


def test_scores_are_the_models_own_and_come_in_order():
    model = RandomModel(1, 6, seed=2)
    settings = SearchSettings(6, START, EOS, alpha=0.6, n_best=40)
    result = sample(stepped(model), tf.zeros([1, 40], tf.int32), tf.constant([5]), settings, Sampling(2.5), [7])
    for ids, score, length in zip(*(part[0].numpy() for part in result), strict=True):
        assert not ids[length:].any() and EOS not in ids[:length - 1] and (length == 5 or ids[length - 1] == EOS)
        np.testing.assert_allclose(score, model.score(0, tuple(ids[:length]), 0.6), rtol=1e-5, atol=1e-5)
    assert (np.diff(result.scores) <= 0).all() and len(set(map(bytes, result.ids[0].numpy()))) > 10


def test_a_very_unlikely_id_has_a_finite_score():
    result = drawn(np.array([0.0, -200.0, 300.0]), count=50, temperature=1e6)
    np.testing.assert_allclose(result.scores[result.ids[:, :, 0] == 0], -300.0 / length_penalty(tf.constant(1), 0.0))
    assert np.isfinite(result.scores).all()


def test_uniform_numbers_are_uniform_and_follow_from_their_place():
    numbers = np.stack([uniform_numbers(3, tf.range(-500, 500, dtype=tf.int64), tf.constant(step), 4)
                        for step in range(10)])
    assert numbers.dtype == np.float32 and (numbers >= 0).all() and (numbers < 1).all()
    for axis in range(3):  # any two of the table's neighbours are as unlike as any others
        shifted = np.roll(numbers, 1, axis)
        assert abs(np.corrcoef(numbers.ravel(), shifted.ravel())[0, 1]) < 5 / np.sqrt(numbers.size)
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert ((counts - numbers.size / 20) ** 2 / (numbers.size / 20)).sum() < 19 + 5 * np.sqrt(2 * 19)
    one = uniform_numbers(3, tf.constant([20], tf.int64), tf.constant(7), 2)
    np.testing.assert_array_equal(one[0], numbers[7, 520, :2])
    other = uniform_numbers(-4, tf.constant([20], tf.int64), tf.constant(7), 2)
    assert not np.isin(other, one).any()


def test_no_examples_and_no_room():
    assert drawn(LOGITS, count=0).ids.shape == (0, 1, 0)
    result = drawn(LOGITS, count=3, limit=0)
    assert result.ids.shape == (3, 1, 0) and not result.lengths.any()
