"""Batched beam search with length penalty, for every autoregressive decoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.decoding.top_k import top_k

NEGATIVE_INFINITY = float("-inf")

StepFunction = Callable[[tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]]


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """What a search needs to know, whatever is decoded.

    Attributes:
      vocab_size: number of ids.
      start_id: the id that the first step gets.
      eos_id: the id that ends a hypothesis.
      alpha: exponent of the length penalty; 0 is none.
      beam_size: hypotheses that beam search keeps for each sentence.
      n_best: how many hypotheses of each sentence are returned: at most ``beam_size``, or any number of samples.
      are_log_probs: whether the step function returns log probabilities, or sums of several models' weighted ones, none
        above 0, that count as they are.
    """

    vocab_size: int
    start_id: int
    eos_id: int
    alpha: float = 0.0
    beam_size: int = 1
    n_best: int = 1
    are_log_probs: bool = False


class BeamResult(NamedTuple):
    """The best hypotheses of each sentence, best first.

    Attributes:
      ids: ``[batch, n_best, length]`` int32 without the start id; EOS is kept, 0 follows it.
      scores: ``[batch, n_best]`` FP32: log probability / length penalty; -inf (and no ids)
        where a sentence has fewer hypotheses.
      lengths: ``[batch, n_best]`` int32, EOS included.
    """

    ids: tf.Tensor
    scores: tf.Tensor
    lengths: tf.Tensor


class _State(NamedTuple):
    """What changes from step to step.

    Attributes:
      step: how many ids each alive hypothesis has.
      last_ids: newest id of each ``[batch, beam]``.
      alive_ids: ``[batch, beam, step]``.
      alive_log_probs: ``[batch, beam]``, best first.
      finished_ids: ``[batch, beam, step]``, 0 after EOS.
      finished_scores: ``[batch, beam]``, best first; -inf where there is none yet.
      finished_lengths: ``[batch, beam]``.
      done: ``[batch]``: sentences whose result can no longer change.
      cache: the decoder's.
    """

    step: tf.Tensor
    last_ids: tf.Tensor
    alive_ids: tf.Tensor
    alive_log_probs: tf.Tensor
    finished_ids: tf.Tensor
    finished_scores: tf.Tensor
    finished_lengths: tf.Tensor
    done: tf.Tensor
    cache: Any


class _Search(NamedTuple):
    """What does not change from step to step; see ``beam_search``."""

    step_fn: StepFunction
    max_lengths: tf.Tensor
    settings: SearchSettings


def length_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """Returns ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14)."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


def beam_search(step_fn: StepFunction, initial_cache: Any, max_lengths: tf.Tensor,
                settings: SearchSettings) -> BeamResult:
    """Searches for the sequences of highest log probability / length penalty.

    Each step keeps the ``beam_size`` best unfinished hypotheses, and the best finished
    ones apart. A sentence is done when none of its unfinished hypotheses can still beat
    its ``n_best``-th finished one, or at its own maximal length; so its result does not
    depend on the rest of the batch. Where fewer than ``n_best`` hypotheses have finished
    by then, unfinished ones follow them, scored alike (the original OpenSeq2Seq returned
    bare log probabilities for those). With a beam of 1 this is greedy search (a sentence
    ends where EOS is likeliest), which ``decoding.sampling.greedy_search`` does sooner.

    Args:
      step_fn: ``(ids [batch, beam], step, cache) → (logits [batch, beam, vocab], cache)``:
        the newest ids and how many came before them.
      initial_cache: nest of tensors ``[batch, beam, …]``, reordered along the beam after
        each step; further dimensions may grow. What is the same for all hypotheses of a
        sentence belongs into ``step_fn``.
      max_lengths: ``[batch]`` int32, longest hypothesis in tokens, EOS included.
      settings: sizes and ids.

    Raises:
      ValueError: ``n_best`` is not between 1 and ``beam_size``, or there are fewer than 2 ids.
    """
    if not 1 <= settings.n_best <= settings.beam_size or settings.vocab_size < 2:
        raise ValueError(f"n_best ({settings.n_best}) must be between 1 and beam_size ({settings.beam_size}), and "
                         f"vocab_size ({settings.vocab_size}) at least 2.")
    max_lengths = tf.maximum(tf.cast(max_lengths, tf.int32), 0)
    search = _Search(step_fn, max_lengths, settings)
    state = _initial_state(search, initial_cache)
    state = tf.while_loop(
        lambda *s: tf.logical_not(tf.reduce_all(_State(*s).done)), lambda *s: tuple(_advance(search, _State(*s))),
        tuple(state), shape_invariants=tuple(_shape_invariants(state)))
    return _result(search, _State(*state))


def _initial_state(search: _Search, cache: Any) -> _State:
    settings = search.settings
    batch, beam = tf.shape(search.max_lengths)[0], settings.beam_size
    # At first all hypotheses of a sentence are the same one: only the first may be continued.
    first = tf.concat([tf.zeros([1]), tf.fill([beam - 1], NEGATIVE_INFINITY)], 0)
    hypotheses = tf.stack([batch, beam])
    no_ids = tf.zeros(tf.stack([batch, beam, 0]), tf.int32)
    log_probs = tf.tile(first[tf.newaxis], tf.stack([batch, 1]))
    return _State(
        tf.constant(0), tf.fill(hypotheses, settings.start_id), no_ids, log_probs,
        no_ids, tf.fill(hypotheses, NEGATIVE_INFINITY), tf.zeros(hypotheses, tf.int32), search.max_lengths <= 0, cache)


def growing_shape(tensor: tf.Tensor) -> tf.TensorShape:
    """Returns the part of a shape ``[batch, beam, …]`` that is constant from step to step: the rank, and the beam."""
    rank = tensor.shape.rank
    return tf.TensorShape([None, tensor.shape[1], *[None] * (rank - 2)] if rank and rank > 1 else tensor.shape)


def _shape_invariants(state: _State) -> _State:
    shapes = _State(*(tf.nest.map_structure(growing_shape, part) for part in state))
    return shapes._replace(done=tf.TensorShape([None]))


def _advance(search: _Search, state: _State) -> _State:
    """Extends every hypothesis by one id."""
    log_probs, parents, ids, cache = _candidates(search, state)
    is_eos = tf.equal(ids, search.settings.eos_id)
    sequences = tf.concat([tf.gather(state.alive_ids, parents, batch_dims=1), ids[:, :, tf.newaxis]], 2)
    length = state.step + 1

    alive_log_probs, chosen = tf.math.top_k(tf.where(is_eos, NEGATIVE_INFINITY, log_probs), search.settings.beam_size)
    alive_ids = tf.gather(sequences, chosen, batch_dims=1)
    alive_parents = tf.gather(parents, chosen, batch_dims=1)
    finished = _merge_finished(search, state, sequences, tf.where(
        is_eos, log_probs / length_penalty(length, search.settings.alpha), NEGATIVE_INFINITY), length)
    done = state.done | (length >= search.max_lengths) | _cannot_improve(search, finished[1], alive_log_probs, length)
    # The loop continues for other sentences of the batch; the results of a done one stay.
    alive_log_probs = tf.where(state.done[:, tf.newaxis], state.alive_log_probs, alive_log_probs)
    alive_ids = tf.where(state.done[:, tf.newaxis, tf.newaxis], _one_longer(state.alive_ids), alive_ids)
    return _State(
        length, tf.gather(ids, chosen, batch_dims=1), alive_ids, alive_log_probs, *finished, done,
        tf.nest.map_structure(lambda tensor: _reorder(tensor, alive_parents), cache))


def _reorder(tensor: tf.Tensor, parents: tf.Tensor) -> tf.Tensor:
    """Returns for each hypothesis the values ``[batch, beam, …]`` of its parent ``[batch, beam]``."""
    beam = parents.shape[1]
    if beam == 1:
        return tensor
    # One gather of rows: on a CPU twice as fast as a gather with batch_dims.
    rows = parents + beam * tf.range(tf.shape(parents)[0])[:, tf.newaxis]
    shape = tf.shape(tensor)
    flat = tf.reshape(tensor, tf.concat([[shape[0] * beam], shape[2:]], 0))
    return tf.ensure_shape(tf.gather(flat, rows), tensor.shape)


def _candidates(search: _Search, state: _State) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, Any]:
    """Returns the 2·beam best continuations: log probabilities, parents, ids ``[batch, 2·beam]``; and the cache.

    At most ``beam`` of them end, so ``beam`` go on. A beam of 1 has one candidate: it ends or goes on.
    """
    beam = search.settings.beam_size
    logits, cache = search.step_fn(state.last_ids, state.step, state.cache)
    logits = tf.ensure_shape(tf.cast(logits, tf.float32), [None, beam, search.settings.vocab_size])
    width = 2 * beam if beam > 1 else 1
    per_beam = min(width, search.settings.vocab_size)
    values, ids = top_k(logits, per_beam)
    log_probs = values
    if not search.settings.are_log_probs:
        log_probs = values - values[:, :, :1] + tf.math.log(highest_probability(logits, ids))
    log_probs += state.alive_log_probs[:, :, tf.newaxis]
    flat = tf.stack([tf.shape(logits)[0], beam * per_beam])
    best, index = tf.math.top_k(tf.reshape(log_probs, flat), width)
    return best, index // per_beam, tf.gather(tf.reshape(ids, flat), index, batch_dims=1), cache


def highest_probability(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Returns the probability ``[batch, beam, 1]`` of the likeliest id, ``ids[:, :, 0]``.

    It is at least 1 / vocabulary, so its logarithm is exact enough to get those of the
    others by differences of logits; softmax takes half the time of log-softmax.
    """
    return tf.gather(tf.nn.softmax(logits), ids[:, :, :1], batch_dims=2)


def _one_longer(ids: tf.Tensor) -> tf.Tensor:
    return tf.pad(ids, [[0, 0], [0, 0], [0, 1]])


def _merge_finished(search: _Search, state: _State, sequences: tf.Tensor, scores: tf.Tensor,
                    length: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns ids, scores and lengths of the best finished hypotheses, old and new; those of done sentences stay."""
    scores = tf.where(state.done[:, tf.newaxis], NEGATIVE_INFINITY, scores)
    all_scores = tf.concat([state.finished_scores, scores], 1)
    best, index = tf.math.top_k(all_scores, search.settings.beam_size)  # of equal scores the older one comes first
    ids = tf.gather(tf.concat([_one_longer(state.finished_ids), sequences], 1), index, batch_dims=1)
    lengths = tf.concat([state.finished_lengths, tf.fill(tf.shape(scores), length)], 1)
    return ids, best, tf.gather(lengths, index, batch_dims=1)


def _cannot_improve(search: _Search, finished_scores: tf.Tensor, alive_log_probs: tf.Tensor,
                    length: tf.Tensor) -> tf.Tensor:
    """Whether the last returned hypothesis is at least as good as anything still to come, ``[batch]``.

    Log probabilities only fall, and the penalty is monotonous in the length: the best that
    an unfinished hypothesis can reach is its log probability by the penalty of the next or
    of the maximal length.
    """
    best = alive_log_probs[:, 0]
    bound = tf.maximum(best / length_penalty(length + 1, search.settings.alpha),
                       best / length_penalty(search.max_lengths, search.settings.alpha))
    return finished_scores[:, search.settings.n_best - 1] >= bound


def _result(search: _Search, state: _State) -> BeamResult:
    """Returns the finished hypotheses, followed by unfinished ones where there are too few."""
    found = state.finished_scores > NEGATIVE_INFINITY
    missing = tf.cumsum(tf.cast(~found, tf.int32), axis=1, exclusive=True)
    ids = tf.where(found[:, :, tf.newaxis], state.finished_ids, tf.gather(state.alive_ids, missing, batch_dims=1))
    alive_scores = state.alive_log_probs / length_penalty(search.max_lengths, search.settings.alpha)[:, tf.newaxis]
    scores = tf.where(found, state.finished_scores, tf.gather(alive_scores, missing, batch_dims=1))
    exists = scores > NEGATIVE_INFINITY
    ids = tf.where(exists[:, :, tf.newaxis], ids, 0)
    lengths = tf.where(exists, tf.where(found, state.finished_lengths, search.max_lengths[:, tf.newaxis]), 0)
    return BeamResult(*(part[:, :search.settings.n_best] for part in (ids, scores, lengths)))
