"""CTC scores of growing prefixes, for beam search with attention decoders.

Watanabe et al. 2017, "Hybrid CTC/Attention Architecture for End-to-End Speech Recognition", algorithm 2: the log
probability that a CTC output begins with a prefix, for all hypotheses and next symbols at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

# Stands for log 0, because differences of -inf would be NaN.
_LOG_ZERO = -1e30


class PrefixState(NamedTuple):
    """State of the prefixes of a beam, which ``decoding.beam_search`` stores in its cache and reorders along the beam.

    Attributes:
      by_symbol: ``[batch, beam, time]``: log probability of all paths up to each frame that spell the prefix and end in
        its last symbol.
      by_blank: the same for paths that end in a blank.
      last: the prefix's last symbol ``[batch, beam]`` int32; the blank for the empty prefix.
      score: log probability that the output begins with the prefix ``[batch, beam]``.
    """

    by_symbol: tf.Tensor
    by_blank: tf.Tensor
    last: tf.Tensor
    score: tf.Tensor


class CtcPrefixScorer:
    """Scores every continuation of every hypothesis with CTC.

    Args:
      logits: ``[batch, time, vocabulary]``, the blank last.
      lengths: number of frames of each utterance ``[batch]``.
      end_id: the id that ends a hypothesis: the blank's id, or an id outside CTC's vocabulary.
      scan: function with the arguments and the result of ``tf.scan``, such as ``parts.portable.scan``.
    """

    def __init__(self, logits: tf.Tensor, lengths: tf.Tensor, end_id: int,
                 scan: Callable[..., Sequence[tf.Tensor]] = tf.scan) -> None:
        self._scan = scan
        self._blank = int(logits.shape[-1]) - 1
        self._end_id = end_id
        in_time = tf.sequence_mask(lengths, tf.shape(logits)[1])[:, :, tf.newaxis]
        # Frames after the end of an utterance are blanks of probability 1, which do not change the scores.
        silence = tf.where(tf.range(self._blank + 1) == self._blank, 0.0, _LOG_ZERO)
        self._log_probs = tf.where(in_time, tf.nn.log_softmax(tf.cast(logits, tf.float32)), silence)

    def initial_state(self, beam_size: int) -> PrefixState:
        """Returns the state of a beam of empty prefixes."""
        blanks = tf.cumsum(self._log_probs[:, :, self._blank], 1)
        by_blank = tf.repeat(blanks[:, tf.newaxis], beam_size, 1)
        ids = tf.fill(tf.shape(by_blank)[:2], self._blank)
        return PrefixState(tf.fill(tf.shape(by_blank), _LOG_ZERO), by_blank, ids, tf.zeros(tf.shape(ids)))

    def gains(self, state: PrefixState) -> tf.Tensor:
        """Returns the log probability of each next id, given that the output begins with the prefix.

        The shape is ``[batch, beam, vocabulary]``, and impossible ids have values below -1e29. Column ``end_id``
        scores the event that the output ends after the prefix. If ``end_id`` is outside the vocabulary, columns are
        appended up to ``end_id``, and ids outside the vocabulary are impossible, except ``end_id``.
        """
        psi = self._prefix_scores(state)
        ends = _sum(tf.stack([state.by_symbol[:, :, -1], state.by_blank[:, :, -1]]), 0)
        width = max(self._blank, self._end_id) + 1
        psi = tf.pad(psi[:, :, :self._blank], [[0, 0], [0, 0], [0, width - self._blank]], constant_values=_LOG_ZERO)
        is_end = tf.range(width) == self._end_id
        return tf.maximum(tf.where(is_end, ends[:, :, tf.newaxis], psi) - state.score[:, :, tf.newaxis], _LOG_ZERO)

    def _prefix_scores(self, state: PrefixState) -> tf.Tensor:
        """Returns ln P(output begins with the prefix followed by the symbol), ``[batch, beam, vocabulary]``."""
        # Sums over all frames in which the new symbol may begin; the prefix is complete one frame earlier.
        start = self._log_probs[:, tf.newaxis, :, :]  # [batch, 1, time, vocabulary]
        # Before the first frame, only the empty prefix is complete.
        first = tf.where(tf.equal(state.last, self._blank), 0.0, _LOG_ZERO)
        before_any = _shifted(_either(state.by_symbol, state.by_blank), first)
        before_same = _shifted(state.by_blank, first)
        scores = _sum(tf.expand_dims(before_any, -1) + start, 2)
        of_last = tf.gather(tf.transpose(self._log_probs, [0, 2, 1]), state.last, batch_dims=1)
        same = _sum(before_same + of_last, 2)
        repeats = tf.equal(tf.expand_dims(state.last, -1), tf.range(self._blank + 1))
        return tf.where(repeats, tf.expand_dims(same, -1), scores)

    def follow(self, state: PrefixState, symbols: tf.Tensor) -> PrefixState:
        """Returns the state after each hypothesis is extended by its symbol in ``symbols`` ``[batch, beam]``.

        The state is meaningless where the symbol is ``end_id``.
        """
        symbols = tf.minimum(symbols, self._blank)
        emitted = tf.gather(tf.transpose(self._log_probs, [0, 2, 1]), symbols, batch_dims=1)  # [batch, beam, time]
        blanks = tf.expand_dims(self._log_probs[:, :, self._blank], 1)
        first = tf.where(tf.equal(state.last, self._blank), 0.0, _LOG_ZERO)
        complete = tf.where(tf.expand_dims(tf.equal(symbols, state.last), -1), state.by_blank,
                            _either(state.by_symbol, state.by_blank))
        before = tf.transpose(_shifted(complete, first), [2, 0, 1])  # [time, batch, beam]
        inputs = (before, tf.transpose(emitted, [2, 0, 1]), tf.transpose(blanks, [2, 0, 1]))

        def step(values: tuple[tf.Tensor, tf.Tensor], frame: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, tf.Tensor]:
            by_symbol, by_blank = values
            entered, emission, blank = frame
            return (tf.maximum(_either(by_symbol, entered) + emission, _LOG_ZERO),
                    tf.maximum(_either(by_blank, by_symbol) + blank, _LOG_ZERO))

        nothing = tf.fill(tf.shape(symbols), _LOG_ZERO)
        by_symbol, by_blank = self._scan(step, inputs, (nothing, nothing))
        scores = _sum(before + inputs[1], 0)
        return PrefixState(tf.transpose(by_symbol, [1, 2, 0]), tf.transpose(by_blank, [1, 2, 0]), symbols, scores)


def _sum(values: tf.Tensor, axis: int) -> tf.Tensor:
    """Returns ln Σ exp(values) along an axis; finite, as the values are."""
    # tf.reduce_logsumexp asks whether values are finite, for which some runtimes have no operation.
    highest = tf.reduce_max(values, axis, keepdims=True)
    return tf.math.log(tf.reduce_sum(tf.exp(values - highest), axis)) + tf.squeeze(highest, axis)


def _either(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Returns ln(exp(a) + exp(b))."""
    return tf.maximum(a, b) + tf.nn.softplus(-tf.abs(a - b))


def _shifted(values: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
    """Delays values ``[batch, beam, time]`` by one frame and puts ``first`` ``[batch, beam]`` in front."""
    return tf.concat([tf.expand_dims(first, -1), values[:, :, :-1]], 2)
