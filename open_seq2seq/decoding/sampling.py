"""Greedy search and sampling, which extend hypotheses independently of one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param, with_change
from open_seq2seq.decoding.beam_search import (
    BeamResult,
    SearchSettings,
    StepFunction,
    highest_probability,
    length_divisor,
    run_search,
    step_of,
    top_k,
)

_SMALLEST = 2.0 ** -126  # the smallest normal number of FP32
# Function of (logits, likeliest ids, step, examples) that returns the next ids.
_ChooseFunction = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


class Sampling(NamedTuple):
    """How ids are drawn. The temperature and ``top_p`` may be FP32 scalars, with the same draws as equal numbers.

    Attributes:
      temperature: divisor of the logits, above 0; 1 keeps the model's own probabilities.
      top_k: number of likeliest ids to draw from; None for all.
      top_p: ids are drawn from the smallest set of likeliest ids whose probabilities sum to at least this; None for
        all.
      seed: random seed; the draws also depend on the example, the index of the sample and the step.
    """

    temperature: float | tf.Tensor = 1.0
    top_k: int | None = None
    top_p: float | tf.Tensor | None = None
    seed: int = 0


class _State(NamedTuple):
    """The variables of the decoding loop.

    Attributes:
      step: number of ids in each hypothesis.
      last_ids: newest id of each hypothesis ``[batch, hypotheses]``.
      ids: ``[batch, hypotheses, step]``, 0 after the end.
      log_probs: ``[batch, hypotheses]``.
      scores: ``[batch, hypotheses]``; ``SearchSettings.least`` until EOS.
      lengths: ``[batch, hypotheses]``, including EOS; 0 until EOS.
      done: ``[batch, hypotheses]``: whether a hypothesis has ended or reached its maximum length.
      cache: the decoder's cache.
    """

    step: tf.Tensor
    last_ids: tf.Tensor
    ids: tf.Tensor
    log_probs: tf.Tensor
    scores: tf.Tensor
    lengths: tf.Tensor
    done: tf.Tensor
    cache: Any


def greedy_search(step_fn: StepFunction, initial_cache: Any, max_lengths: tf.Tensor,
                  settings: SearchSettings, source: Any = None) -> BeamResult:
    """Takes the likeliest id at each step, like ``beam_search`` with a beam of 1, but faster.

    See ``beam_search`` for the arguments. The settings ``beam_size``, ``n_best``, ``groups``, ``diversity`` and
    ``coverage`` are ignored.
    """
    return _one_by_one(step_fn, initial_cache, max_lengths, settings, 1,
                       lambda logits, best, step, examples: best, max_lengths, source)


def sample(step_fn: StepFunction, initial_cache: Any, max_lengths: tf.Tensor, settings: SearchSettings,
           sampling: Sampling, examples: tf.Tensor, first: tf.Tensor | int = 0, source: Any = None) -> BeamResult:
    """Draws hypotheses from the model's distribution, each id given the ids before it.

    The random numbers depend on the seed and the example's index, but not on its position in the batch, so an example's
    samples depend neither on the rest of the batch nor on the order of the examples.

    Args:
      step_fn: see ``beam_search``.
      initial_cache: see ``beam_search``.
      max_lengths: maximum length of a hypothesis ``[batch]``.
      settings: ``n_best`` is the number of hypotheses drawn for each example, which may contain duplicates. ``alpha``
        changes the scores and their order, not the draws. With ``are_log_probs``, weighted sums of several models' log
        probabilities are normalised before drawing.
      sampling: how ids are drawn.
      examples: index of each example, ``[batch]`` integers.
      first: int32 scalar that is added to the index of each step before its random numbers are computed, such as the
        number of tokens that precede the first step.
      source: see ``beam_search``.

    Returns:
      The samples, highest score first. Scores use the model's own probabilities, without the temperature.
    """
    def choose(logits: tf.Tensor, best: tf.Tensor, step: tf.Tensor, examples: tf.Tensor) -> tf.Tensor:
        return _draw(logits, uniform_numbers(sampling.seed, examples, first + step, settings.n_best), sampling)

    result = _one_by_one(step_fn, initial_cache, max_lengths, settings, settings.n_best, choose,
                         tf.cast(examples, tf.int64), source)
    order = tf.argsort(result.scores, axis=1, direction="DESCENDING", stable=True)
    return BeamResult(*(tf.gather(part, order, batch_dims=1) for part in result))


def _one_by_one(step_fn: StepFunction, cache: Any, max_lengths: tf.Tensor, settings: SearchSettings, hypotheses: int,
                choose: _ChooseFunction, examples: tf.Tensor, source: Any) -> BeamResult:
    """Decodes a batch with the ids that ``choose`` returns at each step.

    The argument ``hypotheses`` is the number of hypotheses for each example. ``beam_search`` describes the others.
    """
    max_lengths = tf.maximum(tf.cast(max_lengths, tf.int32), 0)[:, tf.newaxis]
    rules = settings.alpha, settings.rules

    def advance(sentences: Any, state: _State) -> _State:
        max_lengths, source, examples = sentences
        logits, cache = step_of(step_fn, source)(state.last_ids, state.step, state.cache)
        logits = tf.reshape(tf.cast(logits, tf.float32), [tf.shape(logits)[0], hypotheses, settings.vocab_size])
        highest, best = top_k(logits, 1)
        ids = choose(logits, best[:, :, 0], state.step, examples)
        gains = tf.gather(logits, ids, batch_dims=2)
        if not settings.are_log_probs:
            gains = gains - highest[:, :, 0] + tf.math.log(highest_probability(logits, best))[:, :, 0]
        log_probs = tf.where(state.done, state.log_probs, gains + state.log_probs)
        length = state.step + 1
        ends = tf.equal(ids, settings.eos_id) & ~state.done
        return _State(
            length, ids, tf.concat([state.ids, tf.where(state.done, 0, ids)[:, :, tf.newaxis]], 2), log_probs,
            tf.where(ends, log_probs / length_divisor(length, *rules), state.scores),
            tf.where(ends, length, state.lengths), state.done | ends | (length >= max_lengths), cache)

    def result(sentences: Any, state: _State) -> BeamResult:
        max_lengths, ended = sentences[0], settings.exist(state.scores)
        scores = tf.where(ended, state.scores, state.log_probs / length_divisor(max_lengths, *rules))
        exists = settings.exist(scores)
        return BeamResult(tf.where(exists[:, :, tf.newaxis], state.ids, 0), scores,
                          tf.where(exists, tf.where(ended, state.lengths, max_lengths), 0))

    state = _initial_state(tf.stack([tf.shape(max_lengths)[0], hypotheses]), max_lengths, settings, cache)
    return run_search(advance, result, state, (max_lengths, source, examples), source is not None)


def _initial_state(shape: tf.Tensor, max_lengths: tf.Tensor, settings: SearchSettings, cache: Any) -> _State:
    return _State(tf.constant(0), tf.fill(shape, settings.start_id), tf.zeros(tf.concat([shape, [0]], 0), tf.int32),
                  tf.zeros(shape), tf.fill(shape, settings.least), tf.zeros(shape, tf.int32),
                  tf.broadcast_to(max_lengths <= 0, shape), cache)


def _draw(logits: tf.Tensor, uniform: tf.Tensor, sampling: Sampling) -> tf.Tensor:
    """Draws ids ``[batch, hypotheses]`` from logits ``[batch, hypotheses, vocabulary]``.

    Inverting the cumulative distribution needs one random number per hypothesis, instead of one per id.
    """
    size = logits.shape[-1]
    kept = min(sampling.top_k or size, size)
    if kept == size and sampling.top_p is None:
        return _inverse(_tempered(logits, sampling.temperature), uniform)
    # Sorts before dividing, because the division may round adjacent values to the same number.
    values, ids = top_k(logits, kept)
    probabilities = _tempered(values, sampling.temperature)
    if sampling.top_p is not None:
        before = tf.cumsum(probabilities, axis=2, exclusive=True)
        # The first id is always kept: a smaller top_p would count as 0.
        probabilities = tf.where(before < _positive(sampling.top_p), probabilities, 0.0)
    return tf.gather(ids, _inverse(probabilities, uniform), batch_dims=2)


def _tempered(logits: tf.Tensor, temperature: float | tf.Tensor) -> tf.Tensor:
    """Returns the softmax of logits ``[batch, hypotheses, ids]`` divided by a temperature above 0."""
    # The largest logit becomes 0 before the division, which could overflow. Temperatures below the smallest normal
    # number could count as 0, and 0 / 0 is NaN.
    below = logits - tf.reduce_max(logits, axis=2, keepdims=True)
    divisor = _positive(temperature)
    # Compiled functions multiply by the reciprocal of a constant, which may differ from the quotient by a rounding.
    return tf.nn.softmax(below * tf.math.reciprocal(divisor) if tf.is_tensor(divisor) else below / divisor)


def _positive(number: float | tf.Tensor) -> Any:
    return tf.maximum(number, _SMALLEST) if tf.is_tensor(number) else max(number, _SMALLEST)


def _inverse(probabilities: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Returns the first index where the cumulative sum exceeds ``uniform`` times the total, ``[batch, hypotheses]``."""
    cumulated = tf.cumsum(probabilities, axis=2)
    targets = (uniform * cumulated[:, :, -1])[:, :, tf.newaxis]
    # The target is below the total, because uniform is at most 1 - 2^-24. Ids of probability 0 are never drawn.
    return tf.math.count_nonzero(cumulated <= targets, axis=2, dtype=tf.int32)


def uniform_numbers(seed: int, examples: tf.Tensor, step: tf.Tensor, count: int) -> tf.Tensor:
    """Returns uniform random numbers in [0, 1), ``[batch, count]`` FP32, that do not depend on a row's position.

    TensorFlow's stateless ops draw for a whole batch, so a row's numbers depend on its position in the batch. Instead,
    each number returned by this function is a hash of seed, example, step and column (the finaliser of SplitMix64,
    Steele et al. 2014).

    Args:
      seed: any integer.
      examples: index of each row's example, ``[batch]`` int64.
      step: int32 scalar.
      count: number of columns.
    """
    word = _plus(_mixed(tf.constant(seed % 2 ** 64, tf.uint64)), tf.cast(examples, tf.uint64))
    word = _plus(_mixed(word), tf.cast(step, tf.uint64))
    word = _mixed(_plus(_mixed(word)[:, tf.newaxis], tf.cast(tf.range(count), tf.uint64)))
    return tf.cast(tf.bitwise.right_shift(word, tf.constant(40, tf.uint64)), tf.float32) * 2.0 ** -24


def _plus(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Adds uint64 tensors as int64, which gives the same bits.

    TensorFlow's graph optimizer merges additions into an operation that GPUs have for int64 but not for uint64.
    """
    return tf.bitcast(tf.bitcast(first, tf.int64) + tf.bitcast(second, tf.int64), tf.uint64)


def _mixed(word: tf.Tensor) -> tf.Tensor:
    word = _plus(word, tf.constant(0x9E3779B97F4A7C15, tf.uint64))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = tf.bitwise.bitwise_xor(word, tf.bitwise.right_shift(word, tf.constant(shift, tf.uint64)))
        word = word * tf.constant(factor, tf.uint64)
    return tf.bitwise.bitwise_xor(word, tf.bitwise.right_shift(word, tf.constant(31, tf.uint64)))


_NEED_TEMPERATURE = ("sampling_top_k", "sampling_top_p")


def sampling_params() -> dict[str, Any]:
    """Returns the sampling parameters of autoregressive decoders and of language models."""
    return with_change(FREE, {
        "sampling_temperature": Param(
            (float, type(None)), None, "If set, evaluation and inference sample n_best hypotheses from the model's "
            "distribution instead of searching for the best (language models: only inference, one text per prompt). "
            "Logits are divided by this temperature first; 1.0 keeps the model's probabilities.", above=0.0),
        "sampling_top_k": Param((int, type(None)), None, "With sampling_temperature: draw only from the k most likely "
                                "ids.", "ids", minimum=1),
        "sampling_top_p": Param((float, type(None)), None, "With sampling_temperature: draw only from the most likely "
                                "ids whose total probability reaches p (nucleus sampling). Faster together with "
                                "sampling_top_k.", above=0.0, maximum=1.0),
        "sampling_seed": Param(int, 0, "Seed of sampling; samples also depend on the example's index."),
    })


def sampling_problems(params: Mapping[str, Any], path: str) -> list[str]:
    """Returns one sentence for each parameter that has no effect because sampling is off.

    Args:
      params: parameters declared by ``sampling_params``.
      path: path of the parameters in the config.
    """
    if params["sampling_temperature"] is not None:
        return []
    return [f"'{path}/{name}' is {params[name]}, but sampling is off: set sampling_temperature too (1.0 keeps "
            f"the model's probabilities), or remove {name}." for name in _NEED_TEMPERATURE if params[name] is not None]
