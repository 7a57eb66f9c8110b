"""Monotonic attention: from step to step, the attended position never moves backwards along the source."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.randomness import next_seed
from open_seq2seq.parts.rnn.attention import GlobalAttention, Memory


def monotonic_weights(scores: tf.Tensor, before: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the probability with which a process that moves along the source stops at each position.

    The process starts where the process of the previous step stopped. At each position j that it reaches, it stops with
    the probability ``p_j = sigmoid(score_j)``. The result is ``p_j · Σ_{i ≤ j} before_i · Π_{i ≤ k < j} (1 - p_k)``
    (Raffel et al. 2017, https://arxiv.org/abs/1704.00784, equation 8). The products are computed as sums of logarithms.

    Args:
      scores: ``[…, source]`` FP32.
      before: the result of the previous step, ``[…, source]`` FP32.
      mask: boolean ``[…, source]``, False at padding.

    Returns:
      ``[…, source]`` FP32; the sum is below 1 if the process can pass the end of the source without stopping.
    """
    scores = tf.where(mask, scores, -1e9)
    passed = tf.cumsum(tf.math.log_sigmoid(-scores), axis=-1, exclusive=True)
    positions = tf.range(tf.shape(scores)[-1])
    reached = tf.where(positions[:, tf.newaxis] <= positions,
                       tf.expand_dims(passed, -2) - tf.expand_dims(passed, -1), -1e9)
    return tf.sigmoid(scores) * tf.reduce_sum(tf.expand_dims(before, -1) * tf.exp(reached), -2)


class MonotonicAttention(GlobalAttention):
    """``GlobalAttention`` whose weights are computed by ``monotonic_weights`` instead of a softmax.

    Args:
      noise: standard deviation of noise that is added to the scores in training.
      score_bias: initial value of a learned number that is added to the scores.
      kwargs: arguments of ``GlobalAttention``.
    """

    is_monotonic = True

    def __init__(self, noise: float = 0.0, score_bias: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._noise = noise
        self.score_bias = self.weight([], lambda _: tf.constant(score_bias))

    def noise(self, shape: Any, training: bool) -> tf.Tensor | None:
        """Returns normally distributed FP32 noise of this shape for the scores; None if no noise is to be added."""
        if not training or self._noise == 0.0:
            return None
        return self._noise * tf.random.stateless_normal(shape, next_seed(), alg="philox")

    def first_weights(self, leading: Any, memory_size: tf.Tensor) -> tf.Tensor:
        """Returns the attention before the first step: 1 at the first position, else 0.

        Args:
          leading: sizes of the axes before the source's axis.
          memory_size: length of the padded source, a scalar.

        Returns:
          ``[*leading, source]`` FP32.
        """
        return tf.one_hot(tf.zeros(leading, tf.int32), memory_size)

    def step(self, queries: tf.Tensor, memory: Memory, before: tf.Tensor) -> tf.Tensor:
        scores = self.scores(queries, memory) + self.score_bias
        return monotonic_weights(scores, before, memory.mask[:, tf.newaxis])

    def all_steps(self, queries: tf.Tensor, memory: Memory, training: bool = False) -> tf.Tensor:
        scores = self.scores_of_all_steps(queries, memory) + self.score_bias
        noise = self.noise(tf.shape(scores), training)
        scores = tf.transpose(scores if noise is None else scores + noise, [1, 0, 2])
        first = self.first_weights([tf.shape(scores)[1]], tf.shape(scores)[2])
        weights = tf.scan(lambda before, now: monotonic_weights(now, before, memory.mask), scores, first)
        return tf.transpose(weights, [1, 0, 2])
