"""Diverse beam search (Vijayakumar et al. 2016, https://arxiv.org/abs/1610.02424)."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import tensorflow as tf

from open_seq2seq.decoding.beam_search import (
    BeamResult,
    Candidates,
    SearchSettings,
    StepFunction,
    beam_search,
    candidates_wanted,
)


def diverse_beam_search(step_fn: StepFunction, initial_cache: Any, max_lengths: tf.Tensor,
                        settings: SearchSettings) -> BeamResult:
    """Searches with groups of hypotheses, each of which avoids the ids that earlier groups choose.

    Each group is a separate beam search with ``beam_size / groups`` hypotheses. At each step, the groups choose one
    after the other: for each hypothesis of an earlier group that continues with an id, ``diversity`` is subtracted from
    the log probability of that id. This only affects which continuations a group chooses; the log probabilities and
    scores in the result are the model's own. Groups that are done no longer affect others.

    The arguments are those of ``beam_search``. The result contains the best hypotheses of all groups: those that end
    with EOS first, each part sorted by score.

    Raises:
      ValueError: ``groups`` does not divide ``beam_size``.
    """
    groups = settings.groups
    if settings.beam_size % groups:
        raise ValueError(f"groups ({groups}) must divide beam_size ({settings.beam_size}).")
    width = settings.beam_size // groups
    own = dataclasses.replace(settings, beam_size=width, n_best=min(width, settings.n_best), groups=1)
    # The search treats each group as a separate sentence with its own beam, so its batch dimension is batch · groups.
    result = beam_search(
        _over_groups(step_fn, groups), tf.nest.map_structure(lambda part: _regrouped(part, groups, width),
                                                             initial_cache),
        tf.repeat(max_lengths, groups), own, candidates=functools.partial(_candidates, groups=groups))
    return _merged(result, settings)


def _regrouped(tensor: tf.Tensor, factor: int, size: int) -> tf.Tensor:
    """Reshapes ``[batch, beam, …]`` to ``[batch · factor, size, …]``."""
    return _with_rows(tensor, tf.shape(tensor)[0] * factor, size)


def _with_rows(tensor: tf.Tensor, rows: tf.Tensor, size: int) -> tf.Tensor:
    """Reshapes ``[batch, beam, …]`` to ``[rows, size, …]``."""
    sizes = tf.shape(tensor)
    others = [sizes[axis] if one is None else one for axis, one in enumerate(tensor.shape) if axis > 1]
    return tf.reshape(tensor, [rows, size, *others])


def _over_groups(step_fn: StepFunction, groups: int) -> StepFunction:
    """Returns the step function for ids and caches ``[batch · groups, width, …]``; width is ``beam_size / groups``."""
    def step(ids: tf.Tensor, number: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        width = ids.shape[1]

        def joined(tensor: tf.Tensor) -> tf.Tensor:
            return _with_rows(tensor, tf.shape(tensor)[0] // groups, groups * width)

        logits, cache = step_fn(joined(ids), number, tf.nest.map_structure(joined, cache))
        split = functools.partial(_regrouped, factor=groups, size=width)
        return split(logits), tf.nest.map_structure(split, cache)

    return step


def _candidates(search: Any, state: Any, groups: int) -> Candidates:
    """Returns the continuations of each group, ``[batch · groups, candidates]``, chosen one group after the other."""
    settings = search.settings
    beam, vocab_size = settings.beam_size, settings.vocab_size
    logits, cache = search.step_fn(state.last_ids, state.step, state.cache)
    log_probs = tf.reshape(tf.cast(logits, tf.float32), [tf.shape(logits)[0], beam, vocab_size])
    if not settings.are_log_probs:
        log_probs = tf.nn.log_softmax(log_probs)
    log_probs = tf.reshape(log_probs + state.alive_log_probs[:, :, tf.newaxis], [-1, groups, beam * vocab_size])
    is_active = tf.reshape(~state.done, [-1, groups])
    used = tf.zeros([tf.shape(log_probs)[0], vocab_size])
    chosen = []
    for group in range(groups):
        ranks = log_probs[:, group] - settings.diversity * tf.tile(used, [1, beam])
        best, index = tf.math.top_k(ranks, min(candidates_wanted(beam), beam * vocab_size))
        ids = index % vocab_size
        chosen.append((tf.gather(log_probs[:, group], index, batch_dims=1), best, index // vocab_size, ids))
        used += _continuations(best, ids, settings) * tf.cast(is_active[:, group], tf.float32)[:, tf.newaxis]
    totals, ranks, parents, ids = (tf.reshape(tf.stack(part, 1), [-1, part[0].shape[1]])
                                   for part in zip(*chosen, strict=True))
    return Candidates(totals, ranks, parents, ids, cache)


def _continuations(ranks: tf.Tensor, ids: tf.Tensor, settings: SearchSettings) -> tf.Tensor:
    """Returns how many of a group's new unfinished hypotheses end with each id, ``[batch, vocabulary]``."""
    best, index = tf.math.top_k(tf.where(tf.equal(ids, settings.eos_id), settings.least, ranks), settings.beam_size)
    counted = tf.cast(settings.exist(best), tf.float32)[:, :, tf.newaxis]
    return tf.reduce_sum(tf.one_hot(tf.gather(ids, index, batch_dims=1), settings.vocab_size) * counted, 1)


def _merged(result: BeamResult, settings: SearchSettings) -> BeamResult:
    """Returns the best hypotheses of all groups: those with EOS first, then by score."""
    groups, length = settings.groups, tf.shape(result.ids)[2]
    ids = tf.reshape(result.ids, tf.stack([-1, groups * result.ids.shape[1], length]))
    scores, lengths = (tf.reshape(part, [-1, groups * part.shape[1]]) for part in (result.scores, result.lengths))
    has_ended = tf.reduce_any(tf.equal(ids, settings.eos_id), 2)
    order = tf.argsort(scores, axis=1, direction="DESCENDING", stable=True)
    by_kind = tf.argsort(tf.cast(tf.gather(has_ended, order, batch_dims=1), tf.int32), axis=1,
                         direction="DESCENDING", stable=True)
    order = tf.gather(order, by_kind, batch_dims=1)[:, :settings.n_best]
    return BeamResult(*(tf.gather(part, order, batch_dims=1) for part in (ids, scores, lengths)))
