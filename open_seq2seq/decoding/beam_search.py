"""Batched beam search with length and coverage penalties, and the loop and scores that all searches share."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


def growing_shape(tensor: tf.Tensor) -> tf.TensorShape:
    """Returns the part of a shape ``[batch, beam, …]`` that is the same at every step: its rank and its beam size."""
    rank = tensor.shape.rank
    return tf.TensorShape([None, tensor.shape[1], *[None] * (rank - 2)] if rank and rank > 1 else [None] * (rank or 0))


def run_search(advance: Callable[[Any, Any], Any], result: Callable[[Any, Any], Any], state: Any, sentences: Any,
               shrinks: bool) -> Any:
    """Advances a search until all its sentences are done, and returns its result.

    Args:
      advance: function of (sentences, state) that returns the state after one more step.
      result: function of (sentences, state) that returns the result, a named tuple of tensors ``[batch, …]``. The first
        tensor contains ids, and its last dimension is the number of steps.
      state: named tuple of tensors ``[batch, beam, …]`` or ``[batch]``, or nests of them, whose dimensions after the
        second may grow. The first field is a scalar, the number of steps. The field ``done`` tells which sentences, or
        which of their hypotheses, are done; later steps do not change their result.
      sentences: nest of tensors ``[batch, …]``, which are the same at all steps.
      shrinks: whether to take sentences out of the batch.
    """
    if not shrinks:
        return result(sentences, _advanced(advance, state, sentences, 0))

    def body(rows: tf.Tensor, state: Any, sentences: Any, results: Any) -> Any:
        """Continues until a quarter of the sentences are done, and takes them out; ``rows`` are the others' indices."""
        state = _advanced(advance, state, sentences, tf.size(rows) * 3 // 4)
        longer = [[0, 0]] * (results[0].shape.rank - 1) + [[0, state[0] - tf.shape(results[0])[-1]]]
        results = type(results)(tf.pad(results[0], longer), *results[1:])
        results = tf.nest.map_structure(lambda old, new: tf.tensor_scatter_nd_update(old, rows[:, tf.newaxis], new),
                                        results, result(sentences, state))
        unfinished = tf.where(_unfinished(state))[:, 0]
        rows, others, sentences = tf.nest.map_structure(lambda part: tf.gather(part, unfinished),
                                                        (rows, tuple(state)[1:], sentences))
        return rows, type(state)(state[0], *others), sentences, results

    variables = (tf.range(tf.shape(state.done)[0]), state, sentences, result(sentences, state))
    any_rows = tf.nest.map_structure(lambda one: tf.TensorShape([None]).concatenate(one.shape[1:]), sentences)
    shapes = (tf.TensorShape([None]), _shapes_of(state), any_rows,
              tf.nest.map_structure(growing_shape, variables[3]))
    return tf.while_loop(lambda rows, state, *_: tf.reduce_any(_unfinished(state)), body, variables,
                         shape_invariants=shapes, name="shrinking")[3]


def _advanced(advance: Callable[[Any, Any], Any], state: Any, sentences: Any, left: Any) -> Any:
    """Advances a search until at most ``left`` of its sentences are not done."""
    kind = type(state)
    return kind(*tf.while_loop(
        lambda *parts: tf.math.count_nonzero(_unfinished(kind(*parts)), dtype=tf.int32) > left,
        lambda *parts: tuple(advance(sentences, kind(*parts))), tuple(state), shape_invariants=tuple(_shapes_of(state)),
        name="search"))


def _unfinished(state: Any) -> tf.Tensor:
    """Returns which sentences are not done, ``[batch]``."""
    return ~state.done if state.done.shape.rank == 1 else ~tf.reduce_all(state.done, 1)


def _shapes_of(state: Any) -> Any:
    return type(state)(*(tf.nest.map_structure(growing_shape, part) for part in state))


WU, CTRANSLATE2 = "wu", "ctranslate2"

_LEAST_COVERAGE = 1e-10  # lower bound, because attention in half precision can be 0, whose logarithm is infinite


def length_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """Returns ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14)."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


def length_divisor(length: tf.Tensor, alpha: float, rules: str) -> tf.Tensor:
    """Returns the number by which the log probabilities of hypotheses are divided.

    Args:
      length: number of tokens, including EOS.
      alpha: exponent.
      rules: ``wu`` for ``length_penalty``; ``ctranslate2`` for length^alpha, with a length of at least 1.
    """
    if rules == WU:
        return length_penalty(length, alpha)
    return tf.pow(tf.cast(tf.maximum(length, 1), tf.float32), alpha)


def coverage_penalty(coverage: tf.Tensor, weight: float) -> tf.Tensor:
    """Returns weight · Σ log(min(coverage, 1)), at most 0 (Wu et al. 2016, equation 14).

    Args:
      coverage: sum of the attention that each source position has received, ``[..., source]`` FP32; 1 at padding.
      weight: weight of the penalty.
    """
    held = tf.clip_by_value(coverage, _LEAST_COVERAGE, 1.0)
    return weight * tf.reduce_sum(tf.math.log(held), -1)


_MIN_SIZE = 1024  # below this size, tf.math.top_k is as fast


def _block_size(size: int, k: int) -> int:
    """Returns the number of values in a block: about sqrt(size / k), and a divisor of ``size`` if one is close."""
    ideal = math.sqrt(size / k)
    near = [s for s in range(max(2, int(ideal / 2)), int(ideal * 3) + 1) if size % s == 0]
    return min(near, key=lambda s: abs(math.log(s / ideal)), default=round(ideal))


def top_k(values: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes ``tf.math.top_k``, several times faster on a CPU when k is small.

    The k largest values lie in the k blocks with the largest maxima (on ties, the first blocks), so one cheap pass
    finds these blocks, and only they are searched.

    Args:
      values: floating-point ``[batch, beam, size]``, the last dimension static.
      k: number of values to return, at most ``size``.

    Returns:
      (values, int32 indices) ``[batch, beam, k]``, largest first, equal values in order of their indices.
    """
    size = values.shape[-1]
    block = _block_size(size, k)
    if size < _MIN_SIZE or k * block * 4 > size:
        return tuple(tf.math.top_k(values, k))
    if size % block:
        values = tf.pad(values, [[0, 0], [0, 0], [0, -size % block]], constant_values=-math.inf)
        size = values.shape[-1]
    batch, beam = tf.shape(values)[0], tf.shape(values)[1]
    blocks = tf.reshape(values, tf.stack([batch, beam, size // block, block]))
    chosen = tf.math.top_k(tf.reduce_max(blocks, 3), k).indices
    chosen = -tf.math.top_k(-chosen, k).values  # sorted, so that equal values stay in order
    candidates = tf.reshape(tf.gather(blocks, chosen, batch_dims=2), tf.stack([batch, beam, k * block]))
    best, index = tf.math.top_k(candidates, k)
    return best, tf.gather(chosen, index // block, batch_dims=2) * block + index % block


__all__ = ["BeamResult", "SearchSettings", "StepFunction", "beam_search", "highest_probability", "length_penalty",
           "step_of"]

StepFunction = Callable[..., tuple[tf.Tensor, Any]]


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """Settings of a search, independent of the model.

    Attributes:
      vocab_size: number of ids.
      start_id: the id that is fed to the first step.
      eos_id: the id that ends a hypothesis.
      alpha: exponent of the length penalty; 0 disables the penalty.
      beam_size: number of hypotheses that beam search keeps for each sentence.
      n_best: number of hypotheses returned for each sentence: at most ``beam_size`` in beam search, any number in
        sampling.
      rules: how hypotheses are scored, and when the search stops; EOS counts in the length. ``wu``: log probability
        divided by ((5 + length) / 6)^alpha; the search stops when the result can no longer change. ``ctranslate2``: log
        probability divided by length^alpha. A hypothesis finishes only if it is among the ``beam_size`` best candidates
        of its step. The search stops when ``beam_size`` hypotheses have finished. Without length and coverage
        penalties, ``n_best`` finished hypotheses are enough if one of them was the best candidate of its step.
      groups: number of groups of diverse beam search; must divide ``beam_size``. See ``decoding.diverse_search``.
      diversity: with several groups, number subtracted from an id's log probability for each hypothesis of an earlier
        group that continues with this id.
      coverage: weight of the coverage penalty; 0 disables it.
      are_log_probs: True if the step function returns log probabilities, or weighted sums of several models' log
        probabilities; these must be at most 0 and are used without normalisation. False if it returns logits.
      least: score of hypotheses that do not exist: -inf, or a finite number for runtimes that multiply it by 0.
    """

    vocab_size: int
    start_id: int
    eos_id: int
    alpha: float = 0.0
    beam_size: int = 1
    n_best: int = 1
    are_log_probs: bool = False
    rules: str = WU
    groups: int = 1
    diversity: float = 0.0
    coverage: float = 0.0
    least: float = float("-inf")

    def exist(self, scores: tf.Tensor) -> tf.Tensor:
        """Returns which hypotheses exist, given their scores, which may have been divided by length penalties."""
        return scores > self.least / 1e10


class BeamResult(NamedTuple):
    """The best hypotheses of each sentence, best first.

    Attributes:
      ids: ``[batch, n_best, length]`` int32, without the start id, with EOS, padded with 0.
      scores: ``[batch, n_best]`` FP32: log probability divided by ``length_divisor``, plus the coverage penalty; -inf
        (with length 0) where a sentence has fewer hypotheses.
      lengths: ``[batch, n_best]`` int32, including EOS.
    """

    ids: tf.Tensor
    scores: tf.Tensor
    lengths: tf.Tensor


class _State(NamedTuple):
    """The variables of the search loop.

    Attributes:
      step: number of ids in each unfinished hypothesis.
      last_ids: newest id of each unfinished hypothesis ``[batch, beam]``.
      alive_ids: ids of the unfinished hypotheses ``[batch, beam, step]``.
      alive_log_probs: ``[batch, beam]``, best first.
      alive_penalties: coverage penalties of the unfinished hypotheses ``[batch, beam]``.
      finished_ids: ``[batch, beam, step]``, 0 after EOS.
      finished_scores: ``[batch, beam]``, best first; -inf in unused entries.
      finished_lengths: ``[batch, beam]``.
      num_finished: number of hypotheses that have finished, ``[batch]``.
      top_finished: ``[batch]``: whether a finished hypothesis was the best candidate of its step.
      done: ``[batch]``: whether the search of a sentence has stopped.
      cache: the decoder's cache.
    """

    step: tf.Tensor
    last_ids: tf.Tensor
    alive_ids: tf.Tensor
    alive_log_probs: tf.Tensor
    alive_penalties: tf.Tensor
    finished_ids: tf.Tensor
    finished_scores: tf.Tensor
    finished_lengths: tf.Tensor
    num_finished: tf.Tensor
    top_finished: tf.Tensor
    done: tf.Tensor
    cache: Any


class Candidates(NamedTuple):
    """The best continuations of a sentence's hypotheses, best first.

    Attributes:
      log_probs: ``[batch, candidates]``.
      ranks: the numbers by which continuations are compared, ``[batch, candidates]``: ``log_probs`` or, in diverse beam
        search, ``log_probs`` minus the diversity penalty.
      parents: index of the hypothesis that is continued, ``[batch, candidates]``.
      ids: the id that continues the hypothesis, ``[batch, candidates]``.
      cache: the new cache, not yet reordered.
    """

    log_probs: tf.Tensor
    ranks: tf.Tensor
    parents: tf.Tensor
    ids: tf.Tensor
    cache: Any


class _Search(NamedTuple):
    """The constants of the search loop; see ``beam_search``."""

    step_fn: StepFunction
    max_lengths: tf.Tensor
    settings: SearchSettings
    coverage_of: Callable[[Any], tf.Tensor] | None
    candidates: Callable[[_Search, _State], Candidates]


def beam_search(step_fn: StepFunction, initial_cache: Any, max_lengths: tf.Tensor, settings: SearchSettings,
                coverage_of: Callable[[Any], tf.Tensor] | None = None,
                candidates: Callable[[Any, Any], Candidates] | None = None, source: Any = None) -> BeamResult:
    """Searches for the sequences with the highest scores: log probability / length penalty + coverage penalty.

    Each step keeps the ``beam_size`` best unfinished hypotheses and, separately, the best finished ones. A sentence is
    done when its own maximum length is reached or, by the rules ``wu``, when none of its unfinished hypotheses can
    still beat its ``n_best``-th finished one; ``SearchSettings`` describes the rules ``ctranslate2``. A sentence's
    result therefore does not depend on the rest of the batch. If fewer than ``n_best`` hypotheses of a sentence have
    finished when it is done, ``wu`` adds unfinished ones, scored in the same way. With a beam of 1, this is greedy
    search (a sentence ends where EOS is the likeliest id), for which ``decoding.sampling.greedy_search`` is faster.

    Args:
      step_fn: ``(ids [batch, beam], step, cache) → (logits [batch, beam, vocab], cache)``, where ``ids`` are the newest
        ids (the start id at the first step), and ``step`` is the index of the step, counted from 0.
      initial_cache: nest of tensors ``[batch, beam, …]``, reordered along the beam after
        each step; the remaining dimensions may grow. Tensors that are the same for all
        hypotheses of a sentence belong in ``step_fn`` instead.
      max_lengths: ``[batch]`` int32, maximum length of a hypothesis in tokens, including EOS.
      settings: sizes, ids and rules.
      coverage_of: function that reads from the cache the attention to each source position, summed over the steps,
        ``[batch, beam, source]`` FP32, 1 at padding. Required if ``settings.coverage`` is not 0.
      candidates: function that chooses the continuations at each step; ``decoding.diverse_search`` gives its own. By
        default, those of highest log probability are chosen.
      source: nest of tensors ``[batch, …]`` that are the same for all steps and hypotheses of a sentence, given to
        ``step_fn`` as the argument ``source``. If there is one, and nothing else in ``step_fn`` depends on the
        sentences, sentences that are done are taken out of the batch when they are at least a quarter of it.

    Raises:
      ValueError: ``n_best`` is not between 1 and ``beam_size``, or there are fewer than 2 ids.
    """
    if not 1 <= settings.n_best <= settings.beam_size or settings.vocab_size < 2:
        raise ValueError(f"n_best ({settings.n_best}) must be between 1 and beam_size ({settings.beam_size}), and "
                         f"vocab_size ({settings.vocab_size}) at least 2.")
    max_lengths = tf.maximum(tf.cast(max_lengths, tf.int32), 0)
    search = _Search(step_fn, max_lengths, settings, coverage_of if settings.coverage else None,
                     candidates or _candidates)

    def of(sentences: Any) -> _Search:
        return search._replace(step_fn=step_of(step_fn, sentences[1]), max_lengths=sentences[0])

    return run_search(lambda sentences, state: _advance(of(sentences), state),
                      lambda sentences, state: _result(of(sentences), state), _initial_state(search, initial_cache),
                      (max_lengths, source), source is not None)


def step_of(step_fn: StepFunction, source: Any) -> StepFunction:
    """Returns the step function for the sentences of ``source``; see ``beam_search``."""
    return step_fn if source is None else functools.partial(step_fn, source=source)


def _initial_state(search: _Search, cache: Any) -> _State:
    settings = search.settings
    batch, beam = tf.shape(search.max_lengths)[0], settings.beam_size
    # All hypotheses of a sentence start out identical, so only the first one may be extended.
    first = tf.concat([tf.zeros([1]), tf.fill([beam - 1], settings.least)], 0)
    hypotheses = tf.stack([batch, beam])
    no_ids = tf.zeros(tf.stack([batch, beam, 0]), tf.int32)
    log_probs = tf.tile(first[tf.newaxis], tf.stack([batch, 1]))
    unused = tf.fill(hypotheses, settings.least)
    return _State(
        tf.constant(0), tf.fill(hypotheses, settings.start_id), no_ids, log_probs, tf.zeros(hypotheses), no_ids, unused,
        tf.zeros(hypotheses, tf.int32), tf.zeros([batch], tf.int32), tf.zeros([batch], tf.bool),
        search.max_lengths <= 0, cache)


def _advance(search: _Search, state: _State) -> _State:
    """Extends every hypothesis by one id."""
    found = search.candidates(search, state)
    is_eos = tf.equal(found.ids, search.settings.eos_id)
    sequences = tf.concat([tf.gather(state.alive_ids, found.parents, batch_dims=1), found.ids[:, :, tf.newaxis]], 2)
    length, least = state.step + 1, search.settings.least

    _, chosen = tf.math.top_k(tf.where(is_eos, least, found.ranks), search.settings.beam_size)
    alive_log_probs = tf.gather(tf.where(is_eos, least, found.log_probs), chosen, batch_dims=1)
    alive_ids = tf.gather(sequences, chosen, batch_dims=1)
    alive_parents = tf.gather(found.parents, chosen, batch_dims=1)
    ends = _ends(search, found.log_probs, is_eos, length)
    penalties = _penalties(search, found)
    scores = found.log_probs / length_divisor(length, search.settings.alpha, search.settings.rules) + penalties
    finished = _merge_finished(search, state, sequences, tf.where(ends, scores, least), length)
    num_finished = state.num_finished + tf.math.count_nonzero(ends, axis=1, dtype=tf.int32)
    top_finished = state.top_finished | ends[:, 0]
    done = state.done | (length >= search.max_lengths)
    if search.settings.rules == CTRANSLATE2:
        done |= _enough(search.settings, num_finished, top_finished)
    else:
        done |= _cannot_improve(search, finished[1], alive_log_probs, length)
    # While the loop continues for other sentences of the batch, the results of done sentences must not change.
    alive_log_probs = tf.where(state.done[:, tf.newaxis], state.alive_log_probs, alive_log_probs)
    alive_penalties = state.alive_penalties if search.coverage_of is None else tf.where(
        state.done[:, tf.newaxis], state.alive_penalties, tf.gather(penalties, chosen, batch_dims=1))
    alive_ids = tf.where(state.done[:, tf.newaxis, tf.newaxis], _one_longer(state.alive_ids), alive_ids)
    cache = tf.nest.map_structure(lambda tensor: _reorder(tensor, alive_parents), found.cache)
    return _State(length, tf.gather(found.ids, chosen, batch_dims=1), alive_ids, alive_log_probs, alive_penalties,
                  *finished, num_finished, top_finished, done, cache)


def _ends(search: _Search, log_probs: tf.Tensor, is_eos: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Returns which candidates ``[batch, candidates]`` are finished hypotheses."""
    if search.settings.rules == WU:
        return is_eos
    among_best = tf.range(tf.shape(log_probs)[1]) < search.settings.beam_size
    is_last = (length >= search.max_lengths)[:, tf.newaxis]
    return (is_eos | is_last) & among_best & search.settings.exist(log_probs)


def _penalties(search: _Search, found: Candidates) -> tf.Tensor:
    """Returns the coverage penalty of each candidate, ``[batch, candidates]``."""
    if search.coverage_of is None:
        return tf.zeros_like(found.log_probs)
    penalties = coverage_penalty(search.coverage_of(found.cache), search.settings.coverage)
    return tf.gather(penalties, found.parents, batch_dims=1)


def _enough(settings: SearchSettings, num_finished: tf.Tensor, top_finished: tf.Tensor) -> tf.Tensor:
    """Returns, for each sentence ``[batch]``, whether CTranslate2 would stop."""
    if settings.alpha == 0.0 and settings.coverage == 0.0:
        return top_finished & (num_finished >= settings.n_best)
    return num_finished >= settings.beam_size


def _reorder(tensor: tf.Tensor, parents: tf.Tensor) -> tf.Tensor:
    """Reorders a tensor ``[batch, beam, …]`` so that each hypothesis gets the values of its parent."""
    beam = parents.shape[1]
    if beam == 1:
        return tensor
    # On a CPU, a single gather of rows is twice as fast as a gather with batch_dims.
    rows = parents + beam * tf.range(tf.shape(parents)[0])[:, tf.newaxis]
    shape = tf.shape(tensor)
    flat = tf.reshape(tensor, tf.concat([[shape[0] * beam], shape[2:]], 0))
    return tf.reshape(tf.gather(flat, rows), shape)


def candidates_wanted(beam_size: int) -> int:
    """Returns how many of the best continuations of a sentence's hypotheses a step needs.

    Of the best ``2 * beam_size``, at most ``beam_size`` end with EOS, because each hypothesis has one continuation by
    EOS. So at least ``beam_size`` do not end. A beam of 1 needs only the best continuation.
    """
    return 2 * beam_size if beam_size > 1 else 1


def _candidates(search: _Search, state: _State) -> Candidates:
    """Returns the continuations of highest log probability."""
    beam = search.settings.beam_size
    logits, cache = search.step_fn(state.last_ids, state.step, state.cache)
    logits = tf.reshape(tf.cast(logits, tf.float32), [tf.shape(logits)[0], beam, search.settings.vocab_size])
    width = candidates_wanted(beam)
    per_beam = min(width, search.settings.vocab_size)
    values, ids = top_k(logits, per_beam)
    log_probs = values
    if not search.settings.are_log_probs:
        log_probs = values - values[:, :, :1] + tf.math.log(highest_probability(logits, ids))
    log_probs += state.alive_log_probs[:, :, tf.newaxis]
    flat = tf.stack([tf.shape(logits)[0], beam * per_beam])
    best, index = tf.math.top_k(tf.reshape(log_probs, flat), width)
    return Candidates(best, best, index // per_beam, tf.gather(tf.reshape(ids, flat), index, batch_dims=1), cache)


def highest_probability(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Returns the probability ``[batch, beam, 1]`` of the likeliest id, ``ids[:, :, 0]``.

    This probability is at least 1 / vocabulary, so its logarithm is accurate, and the other log probabilities follow
    from it by adding differences of logits. This way, only a softmax is needed, which takes half the time of
    log-softmax.
    """
    return tf.gather(tf.nn.softmax(logits), ids[:, :, :1], batch_dims=2)


def _one_longer(ids: tf.Tensor) -> tf.Tensor:
    return tf.pad(ids, [[0, 0], [0, 0], [0, 1]])


def _merge_finished(search: _Search, state: _State, sequences: tf.Tensor, scores: tf.Tensor,
                    length: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns ids, scores and lengths of the best finished hypotheses, old or new; for done sentences, the old ones."""
    scores = tf.where(state.done[:, tf.newaxis], search.settings.least, scores)
    all_scores = tf.concat([state.finished_scores, scores], 1)
    best, index = tf.math.top_k(all_scores, search.settings.beam_size)  # on equal scores, older ones come first
    ids = tf.gather(tf.concat([_one_longer(state.finished_ids), sequences], 1), index, batch_dims=1)
    lengths = tf.concat([state.finished_lengths, tf.fill(tf.shape(scores), length)], 1)
    return ids, best, tf.gather(lengths, index, batch_dims=1)


def _cannot_improve(search: _Search, finished_scores: tf.Tensor, alive_log_probs: tf.Tensor,
                    length: tf.Tensor) -> tf.Tensor:
    """Returns whether no unfinished hypothesis can still enter the ``n_best`` results of a sentence, ``[batch]``.

    Log probabilities only decrease, the length penalty is monotonic, and the coverage penalty is at most 0. So no
    unfinished hypothesis can reach a score above its log probability divided by the length penalty of the next length
    or of the maximum length, whichever quotient is higher.
    """
    best = tf.reduce_max(alive_log_probs, 1)
    bound = tf.maximum(best / length_penalty(length + 1, search.settings.alpha),
                       best / length_penalty(search.max_lengths, search.settings.alpha))
    return finished_scores[:, search.settings.n_best - 1] >= bound


def _result(search: _Search, state: _State) -> BeamResult:
    """Returns the finished hypotheses, followed by unfinished ones if there are fewer than ``n_best``.

    By the rules of CTranslate2, hypotheses that reach the maximum length count as finished, and no others are added.
    """
    settings = search.settings
    found = settings.exist(state.finished_scores)
    missing = tf.cumsum(tf.cast(~found, tf.int32), axis=1, exclusive=True)
    alive_scores = state.alive_log_probs / length_divisor(
        search.max_lengths, settings.alpha, settings.rules)[:, tf.newaxis] + state.alive_penalties
    # Coverage penalties and groups of beams change the order.
    alive_scores, order = tf.math.top_k(alive_scores, settings.beam_size)
    if settings.rules == CTRANSLATE2:
        alive_scores = tf.fill(tf.shape(alive_scores), settings.least)
    scores = tf.where(found, state.finished_scores, tf.gather(alive_scores, missing, batch_dims=1))
    place = tf.gather(order, missing, batch_dims=1)
    ids = tf.where(found[:, :, tf.newaxis], state.finished_ids, tf.gather(state.alive_ids, place, batch_dims=1))
    exists = settings.exist(scores)
    ids = tf.where(exists[:, :, tf.newaxis], ids, 0)
    lengths = tf.where(exists, tf.where(found, state.finished_lengths, search.max_lengths[:, tf.newaxis]), 0)
    return BeamResult(*(part[:, :settings.n_best] for part in (ids, scores, lengths)))
