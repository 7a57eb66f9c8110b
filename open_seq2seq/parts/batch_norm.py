"""Batch normalisation over the positions that are not padding; statistics are FP32 in every compute type."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.ranks import ranks_now, rejoined_ranks, sum_over_ranks
from open_seq2seq.parts.recompute import is_recomputing
from open_seq2seq.parts.xla import is_for_xla

# Profiles tell normalisation apart from other arithmetic by its scope.
_SCOPE = "norm"


def normalize_batch(x: tf.Tensor, held: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float,
                    count: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Normalises rows by the statistics of those that count (Ioffe and Szegedy 2015, section 3).

    With n rows that count, x̂ = (x − μ) / √(σ² + ε) and dy the gradient:
    ``dx = γ / √(σ² + ε) · (dy − Σ dy / n − x̂ · Σ (dy · x̂) / n)``. Of ``x`` nothing but itself is kept for that.
    Where ranks are joined (``parts.ranks``), n, the statistics and these sums are those of all ranks.

    Args:
      x: ``[rows, channels]``, any float type; finite where rows do not count.
      held: FP32 ``[1, rows]``: 1 for each row that counts, 0 for others. These get and give no gradient.
      gamma: FP32 ``[channels]``.
      beta: FP32 ``[channels]``.
      epsilon: added to the variance.
      count: FP32 scalar, the rows that count, of all ranks where they are joined; by default the sum of ``held``.

    Returns:
      The normalised rows in the type of ``x``; the mean and the variance ``[channels]``, FP32, which have no gradient.
    """
    count = tf.maximum(tf.reduce_sum(held) if count is None else count, 1.0)
    ranks = ranks_now()

    @tf.custom_gradient
    def run(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
        with tf.name_scope(_SCOPE):
            wide = tf.cast(x, tf.float32)
            # A product with zeros and ones is the quickest masked sum down the columns.
            mean = sum_over_ranks(tf.matmul(held, wide)[0])[0] / count
            centered = wide - mean
            variance = sum_over_ranks(tf.matmul(held, tf.square(centered))[0])[0] / count
            inverse = tf.math.rsqrt(variance + epsilon)
            y = tf.cast(centered * (inverse * gamma) + beta, x.dtype)

        def grad(dy: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            with tf.name_scope(_SCOPE), rejoined_ranks(ranks):
                again = tf.cast(_copy_after(dy, x), tf.float32) - mean
                wide_dy = tf.cast(dy, tf.float32) * tf.transpose(held)
                d_beta = tf.matmul(held, wide_dy)[0]
                d_gamma = tf.matmul(held, wide_dy * again)[0] * inverse
                # What a rank's loss owes to the statistics, it owes to the rows of all ranks.
                slope, offset = sum_over_ranks(d_gamma, d_beta)
                shared = again * (slope * inverse / count) + offset / count
                dx = (wide_dy - shared) * (gamma * inverse) * tf.transpose(held)
                return tf.cast(dx, x.dtype), d_gamma, d_beta

        return (y, mean, variance), grad

    return run(x, gamma, beta)


def _copy_after(dy: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Returns a copy that cannot be had before ``dy``: otherwise the forward pass's FP32 rows would be kept instead."""
    if is_for_xla():
        return x
    with tf.control_dependencies([dy]):
        return tf.identity(x)


class BatchNorm(Module):
    """Normalisation of each channel over the positions of a batch that are not padding.

    Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167. Outside training the moving
    statistics are used, so that an example's result does not depend on its batch.

    Args:
      hidden_size: channels.
      momentum: share of the old moving statistics that a step keeps.
      epsilon: added to the variance.
      center_scale: whether offset and scale are learned.
      regularizer: of the scale.
    """

    def __init__(self, hidden_size: int, momentum: float = 0.95, epsilon: float = 1e-4, center_scale: bool = True,
                 regularizer: Any = None) -> None:
        super().__init__(name="batch_norm")
        self.hidden_size = hidden_size
        self.momentum = momentum
        self.epsilon = epsilon
        self.moving_mean = self.weight([hidden_size], "zeros", trainable=False)
        self.moving_variance = self.weight([hidden_size], "ones", trainable=False)
        if center_scale:
            self.gamma = self.weight([hidden_size], "ones", regularizer=regularizer)
            self.beta = self.weight([hidden_size], "zeros")
        self.center_scale = center_scale

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None = None, training: bool = False) -> tf.Tensor:
        """Normalises ``[..., hidden]``.

        Args:
          x: any float type; in training finite where the mask is False.
          mask: boolean, ``x``'s shape without its last axis; False positions do not count.
          training: use and record the batch's statistics.
        """
        rows = tf.reshape(x, [-1, self.hidden_size])
        gamma = tf.convert_to_tensor(self.gamma) if self.center_scale else tf.ones([self.hidden_size])
        beta = tf.convert_to_tensor(self.beta) if self.center_scale else tf.zeros([self.hidden_size])
        if training:
            y = self._by_batch(rows, mask, gamma, beta)
        else:
            with tf.name_scope(_SCOPE):
                factor = tf.math.rsqrt(self.moving_variance + self.epsilon) * gamma
                y = tf.cast(tf.cast(rows, tf.float32) * factor + (beta - self.moving_mean * factor), x.dtype)
        return tf.reshape(y, tf.shape(x))

    def _by_batch(self, rows: tf.Tensor, mask: tf.Tensor | None, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
        held = tf.ones([1, tf.shape(rows)[0]]) if mask is None else tf.cast(tf.reshape(mask, [1, -1]), tf.float32)
        (count,) = sum_over_ranks(tf.reduce_sum(held))
        y, mean, variance = normalize_batch(rows, held, gamma, beta, self.epsilon, count)
        if not is_recomputing():
            # A replica without rows must leave the moving statistics alone.
            rate = tf.where(count > 0.0, 1.0 - self.momentum, 0.0)
            for moving, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
                change = rate * (tf.stop_gradient(new) - moving)
                # The update of a batch that holds NaN is skipped; its statistics must leave no trace either.
                moving.assign_add(tf.where(tf.math.is_finite(change), change, 0.0))
        return y
