"""Connectionist temporal classification (CTC): exact loss and gradient by one recursion over time.

See Graves et al. 2006, https://doi.org/10.1145/1143844.1143891, sections 4.1 and 4.2. A label sequence of length L is
extended to 2 L + 1 states: a blank, the first symbol, a blank, … The backward variables are the forward variables of
the reversed sequence. Therefore both are computed in one loop over time, for all states of all utterances at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

# Represents log 0 instead of minus infinity, because the difference of two infinities would be NaN.
_LOG_ZERO = -1e30


def frames_needed(labels: tf.Tensor, label_lengths: tf.Tensor) -> tf.Tensor:
    """Returns the smallest number of frames that each label sequence needs, ``[batch]``.

    This is one frame per symbol, and one for the blank between two equal neighbours.

    Args:
      labels: ids ``[batch, label_time]``; padding is ignored.
      label_lengths: ``[batch]`` int32.
    """
    inside = tf.sequence_mask(label_lengths - 1, tf.maximum(tf.shape(labels)[1] - 1, 0))
    repeats = tf.logical_and(tf.equal(labels[:, 1:], labels[:, :-1]), inside)
    return label_lengths + tf.reduce_sum(tf.cast(repeats, tf.int32), 1)


def ctc_loss(logits: tf.Tensor, labels: tf.Tensor, label_lengths: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the negative log probability of each label sequence, ``[batch]`` FP32, in nats.

    Padding changes neither the losses nor the gradient. A loss is infinite if the label sequence needs more frames than
    there are, and NaN if a logit is NaN. The gradient is then NaN, or 0 if the upstream gradient is 0.

    Args:
      logits: ``[batch, time, vocabulary]``; the blank is the last symbol.
      labels: ids ``[batch, label_time]`` int32, smaller than the blank's id.
      label_lengths: ``[batch]`` int32.
      lengths: numbers of frames ``[batch]`` int32.
    """
    logits = tf.cast(logits, tf.float32)
    in_time = tf.sequence_mask(lengths, tf.shape(logits)[1])[:, :, tf.newaxis]
    logits = tf.where(in_time, logits, 0.0)
    labels = tf.where(tf.sequence_mask(label_lengths, tf.shape(labels)[1]), labels, tf.shape(logits)[-1] - 1)
    return _loss_of_padded(logits, labels, label_lengths, lengths)


@tf.custom_gradient
def _loss_of_padded(logits: tf.Tensor, labels: tf.Tensor, label_lengths: tf.Tensor, lengths: tf.Tensor) -> Any:
    log_probs = tf.nn.log_softmax(logits)
    states = _extended(labels, tf.shape(logits)[-1] - 1)
    recursion = _recursion(log_probs, states, 2 * label_lengths + 1, lengths)
    feasible = frames_needed(labels, label_lengths) <= lengths
    losses = tf.where(feasible, recursion.losses, float("inf"))

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, None, None, None]:
        finite = tf.math.is_finite(losses)
        # If the caller excludes a loss, its upstream gradient is 0, and the result must be 0, too, instead of NaN.
        otherwise = tf.where(tf.equal(upstream, 0.0), 0.0, float("nan"))
        expected = _expected_counts(recursion, labels, tf.shape(logits)[-1])
        result = upstream[:, tf.newaxis, tf.newaxis] * (tf.exp(log_probs) - expected)
        result = tf.where(finite[:, tf.newaxis, tf.newaxis], result, otherwise[:, tf.newaxis, tf.newaxis])
        in_time = tf.sequence_mask(lengths, tf.shape(logits)[1])
        return tf.where(in_time[:, :, tf.newaxis], result, 0.0), None, None, None

    return losses, gradient


class _Recursion(NamedTuple):
    """The results of the loop over time.

    Attributes:
      losses: ``[batch]``.
      log_occupancy: ``[batch, time, states]``, log probabilities of being in each state, up to a constant per frame.
    """

    losses: tf.Tensor
    log_occupancy: tf.Tensor


def _extended(labels: tf.Tensor, blank: tf.Tensor) -> tf.Tensor:
    """Returns the symbols of the states, ``[batch, 2 · label_time + 1]``: the labels, and blanks around each label."""
    pairs = tf.stack([labels, tf.fill(tf.shape(labels), blank)], 2)
    return tf.pad(tf.reshape(pairs, [tf.shape(labels)[0], -1]), [[0, 0], [1, 0]], constant_values=blank)


def _recursion(log_probs: tf.Tensor, states: tf.Tensor, state_counts: tf.Tensor, lengths: tf.Tensor) -> _Recursion:
    """Computes the forward and backward variables.

    Args:
      log_probs: log probabilities of the symbols, ``[batch, time, vocabulary]``.
      states: symbols of the states, ``[batch, states]``.
      state_counts: numbers of states without padding, ``[batch]``.
      lengths: numbers of frames, ``[batch]``.
    """
    emissions = tf.gather(log_probs, states, axis=2, batch_dims=1)
    both = tf.transpose(tf.concat([emissions, _reversed(emissions, state_counts, lengths)], 0), [1, 0, 2])
    both_states = tf.concat([states, tf.reverse_sequence(states, state_counts, 1, 0)], 0)
    valid = tf.sequence_mask(state_counts, tf.shape(states)[1])
    forward, offsets = _run(both, both_states, tf.tile(valid, [2, 1]))
    alpha, beta = tf.split(tf.transpose(forward, [1, 0, 2]), 2, 0)
    beta = _reversed(beta, state_counts, lengths)
    occupancy = tf.where(valid[:, tf.newaxis], alpha + beta - emissions, _LOG_ZERO)
    batch = tf.shape(states)[0]
    return _Recursion(_losses(alpha, offsets[:, :batch], state_counts, lengths), occupancy)


def _reversed(values: tf.Tensor, state_counts: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Reverses ``[batch, time, states]`` along time and states, leaving padding in place."""
    return tf.reverse_sequence(tf.reverse_sequence(values, lengths, 1, 0), state_counts, 2, 0)


def _run(emissions: tf.Tensor, states: tf.Tensor, valid: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Runs the forward recursion.

    Args:
      emissions: log probabilities of the states' symbols, ``[time, rows, states]``.
      states: symbols of the states, ``[rows, states]``.
      valid: boolean ``[rows, states]``, False at padding.

    Returns:
      (logarithms of the forward variables ``[time, rows, states]``, shifted in each frame so that the maximum over
      states is 0; sums of the shifts up to each frame, ``[time, rows]`` float64). Without the shifts, the logarithms
      would grow with time, and their rounding errors would be large enough to affect the gradient.
    """
    steps = tf.shape(emissions)[0]
    # A blank between two symbols may be skipped only if the symbols differ.
    skips = tf.concat([tf.zeros_like(states[:, :2], tf.bool), tf.not_equal(states[:, 2:], states[:, :-2])], 1)
    skip_cost = tf.where(skips, 0.0, -_LOG_ZERO)
    start = tf.where(valid & (tf.range(tf.shape(states)[1]) < 1), 0.0, -_LOG_ZERO)

    def step(time: tf.Tensor, before: tf.Tensor, values: tf.TensorArray, taken: tf.TensorArray) -> tuple:
        """Computes one frame with negative log probabilities.

        TensorFlow may turn a sum of three terms into an AddN with a temporary variable, which fails in loops
        ("AlreadyExistsError … tmp_var"). Therefore a ReLU, which does not change the positive sum of the first two
        terms, separates the additions.
        """
        padded = tf.pad(before, [[0, 0], [2, 0]], constant_values=-_LOG_ZERO)
        one, two = padded[:, 1:-1], padded[:, :-2] + skip_cost
        least = tf.minimum(tf.minimum(before, one), two)
        total = tf.nn.relu(tf.exp(least - before) + tf.exp(least - one)) + tf.exp(least - two)
        after = (least - tf.math.log(total)) - emissions[time]
        lowest = tf.reduce_min(after, 1, keepdims=True)
        after = tf.ensure_shape(tf.minimum(after - lowest, -_LOG_ZERO), before.shape)
        return time + 1, after, values.write(time, after), taken.write(time, lowest[:, 0])

    arrays = [tf.TensorArray(tf.float32, steps, element_shape=shape) for shape in (states.shape, states.shape[:1])]
    loop = tf.while_loop(lambda time, *_: time < steps, step, (0, start, *arrays), maximum_iterations=steps)
    return -loop[2].stack(), -tf.cumsum(tf.cast(loop[3].stack(), tf.float64))


def _losses(alpha: tf.Tensor, offsets: tf.Tensor, state_counts: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the losses ``[batch]``, computed from the last two states in the last frame; 0 if there are no frames."""
    last = tf.maximum(lengths - 1, 0)
    final = tf.gather(alpha, last, batch_dims=1)
    ends = tf.stack([tf.gather(final, state_counts - 1, batch_dims=1),
                     tf.where(state_counts > 1, tf.gather(final, tf.maximum(state_counts - 2, 0), batch_dims=1),
                              _LOG_ZERO)], 1)
    total = tf.cast(tf.reduce_logsumexp(ends, 1), tf.float64) + tf.gather(tf.transpose(offsets), last, batch_dims=1)
    return tf.where(lengths > 0, -tf.cast(total, tf.float32), 0.0)


def _expected_counts(recursion: _Recursion, labels: tf.Tensor, vocab_size: tf.Tensor) -> tf.Tensor:
    """Returns the probability of each symbol in each frame, given the labels: ``[batch, time, vocabulary]``."""
    occupancy = tf.nn.softmax(recursion.log_occupancy)
    of_blank = tf.reduce_sum(occupancy[:, :, 0::2], 2, keepdims=True)
    # A matrix product with one-hot labels sums the states of each symbol; it is exact in FP32.
    symbols = tf.matmul(occupancy[:, :, 1::2], tf.one_hot(labels, vocab_size - 1))
    return tf.concat([symbols, of_blank], 2)
