"""Batch normalisation over the positions that are not padding; statistics are always FP32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.forward_pass import current_pass, entered, sum_over_ranks

# Profiles identify normalisation by this name scope.
_SCOPE = "norm"
_BLOCK = 64  # number of rows that XLA adds at once


def normalize_batch(x: tf.Tensor, mask: tf.Tensor | None, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float,
                    count: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Normalises rows by the statistics of the valid rows (Ioffe and Szegedy 2015, section 3).

    If all rows are valid, ``FusedBatchNormV3`` normalises them in about half the time; it has no mask. To save memory,
    ``x`` is the only tensor ``[rows, channels]`` that is kept for the backward pass. If ``ForwardPass.ranks`` joins
    ranks, the statistics and the sums of the backward pass are computed over all ranks.

    Args:
      x: ``[rows, channels]`` of any floating-point dtype; invalid rows must be finite too.
      mask: boolean ``[rows]``: which rows are valid; the others have no gradient. None: all.
      gamma: the scale, FP32 ``[channels]``.
      beta: the offset, FP32 ``[channels]``.
      epsilon: number added to the variance.
      count: FP32 scalar, number of valid rows on all joined ranks; by default that on this rank.

    Returns:
      (normalised rows ``[rows, channels]`` in the dtype of ``x``, mean, variance); mean and variance are FP32
      ``[channels]`` without gradients.
    """
    forward = current_pass()
    if forward.for_xla or forward.ranks is not None:
        all_valid: bool | tf.Tensor = False
    else:
        all_valid = True if mask is None else tf.reduce_all(mask)
    valid = tf.ones([1, tf.shape(x)[0]]) if mask is None else tf.cast(mask, tf.float32)[tf.newaxis]
    count = tf.maximum(tf.reduce_sum(valid) if count is None else count, 1.0)

    @tf.custom_gradient
    def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
        with tf.name_scope(_SCOPE):
            y, statistics, reserves = _either(
                all_valid, lambda: _normalized(x, gamma, beta, epsilon),
                lambda: _normalized_by_mask(x, valid, gamma, beta, epsilon, count))

        def grad(dy: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            with tf.name_scope(_SCOPE), entered(forward):
                return _either(all_valid, lambda: _gradients(dy, x, gamma, epsilon, reserves),
                               lambda: _gradients_by_mask(dy, x, gamma, valid, count, statistics))

        return (y, statistics.mean, statistics.variance), grad

    return normalize(x, gamma, beta)


def _either(condition: bool | tf.Tensor, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """Returns the result of the first function if the condition is True, else that of the second."""
    if isinstance(condition, bool):
        return (first if condition else second)()
    return tf.cond(condition, first, second)


class _Statistics(NamedTuple):
    """Statistics of a batch, FP32 ``[channels]`` each.

    Attributes:
      mean: mean over the valid rows.
      variance: biased variance over the valid rows.
      inverse: 1 / √(variance + ε).
    """

    mean: tf.Tensor
    variance: tf.Tensor
    inverse: tf.Tensor


# The normalised rows, the statistics, and the reserve spaces of the operation, which are empty if it is not used.
_Normalized = tuple[tf.Tensor, _Statistics, tuple[tf.Tensor, ...]]


def _normalized(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> _Normalized:
    """Returns ``x`` normalised by the statistics of all rows, the statistics, and what ``_gradients`` needs."""
    outputs = tf.raw_ops.FusedBatchNormV3(x=_as_image(x), scale=gamma, offset=beta, mean=[], variance=[],
                                          epsilon=epsilon, is_training=True)
    rows = tf.cast(tf.shape(x)[0], tf.float32)
    variance = outputs.batch_variance * ((rows - 1.0) / rows)  # the operation has divided by rows - 1
    return (tf.reshape(outputs.y, tf.shape(x)),
            _Statistics(outputs.batch_mean, variance, tf.math.rsqrt(variance + epsilon)),
            (outputs.reserve_space_1, outputs.reserve_space_2, outputs.reserve_space_3))


def _gradients(dy: tf.Tensor, x: tf.Tensor, gamma: tf.Tensor, epsilon: float,
               reserves: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns what ``_gradients_by_mask`` returns, for ``_normalized``."""
    first, second, third = reserves
    outputs = tf.raw_ops.FusedBatchNormGradV3(
        y_backprop=_as_image(dy), x=_as_image(x), scale=gamma, reserve_space_1=first, reserve_space_2=second,
        reserve_space_3=third, epsilon=epsilon, is_training=True)
    return tf.reshape(outputs.x_backprop, tf.shape(x)), outputs.scale_backprop, outputs.offset_backprop


def _as_image(x: tf.Tensor) -> tf.Tensor:
    """Returns rows ``[rows, channels]`` as an image ``[1, 1, rows, channels]``, the fastest layout."""
    return tf.reshape(x, [1, 1, -1, x.shape[1]])


def _normalized_by_mask(x: tf.Tensor, mask: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float,
                        count: tf.Tensor) -> _Normalized:
    """Returns what ``_normalized`` returns, by the statistics of the rows whose ``mask`` ``[1, rows]`` is 1."""
    wide = tf.cast(x, tf.float32)
    mean = sum_over_ranks(_sums(wide, mask))[0] / count
    centered = wide - mean
    variance = sum_over_ranks(_sums(tf.square(centered), mask))[0] / count
    inverse = tf.math.rsqrt(variance + epsilon)
    y = tf.cast(centered * (inverse * gamma) + beta, x.dtype)
    return y, _Statistics(mean, variance, inverse), (tf.zeros([0]),) * 3


def _gradients_by_mask(dy: tf.Tensor, x: tf.Tensor, gamma: tf.Tensor, mask: tf.Tensor, count: tf.Tensor,
                       statistics: _Statistics) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the gradients for ``x`` ``[rows, channels]`` and for ``gamma`` and ``beta`` ``[channels]``.

    With n valid rows and x̂ = (x − μ) / √(σ² + ε): ``dx = γ / √(σ² + ε) · (dy − Σ dy / n − x̂ · Σ (dy · x̂) / n)``.
    """
    mean, _, inverse = statistics
    centered = tf.cast(_copy_after(dy, x), tf.float32) - mean
    wide_dy = tf.cast(dy, tf.float32) * tf.transpose(mask)
    d_beta = _sums(wide_dy, mask)
    d_gamma = _sums(wide_dy * centered, mask) * inverse
    # The statistics depend on the rows of all ranks, so their gradient is a sum over all ranks.
    slope, offset = sum_over_ranks(d_gamma, d_beta)
    shared = centered * (slope * inverse / count) + offset / count
    dx = (wide_dy - shared) * (gamma * inverse) * tf.transpose(mask)
    return tf.cast(dx, x.dtype), d_gamma, d_beta


def _sums(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the sums ``[channels]`` of the rows of ``x`` ``[rows, channels]`` whose ``mask`` ``[1, rows]`` is 1."""
    if not current_pass().for_xla:
        return tf.matmul(mask, x)[0]  # the fastest way, because the mask is zeros and ones
    # XLA adds row after row, so rounding errors grow with the number of rows; sums of blocks keep them small.
    rows = tf.pad(x * tf.transpose(mask), [[0, -tf.shape(x)[0] % _BLOCK], [0, 0]])
    return tf.reduce_sum(tf.reduce_sum(tf.reshape(rows, [-1, _BLOCK, x.shape[1]]), 1), 0)


def _copy_after(dy: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Returns a copy of ``x`` made after ``dy``, so that no FP32 copy is kept from the forward pass.

    For XLA, returns ``x`` itself.
    """
    if current_pass().for_xla:
        return x
    with tf.control_dependencies([dy]):
        return tf.identity(x)


class BatchNorm(Module):
    """Normalises each channel over the positions of a batch that are not padding.

    See Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167. Outside of training, the moving statistics are used,
    so that an example's result does not depend on its batch.

    Args:
      hidden_size: number of channels.
      momentum: fraction of the old moving statistics that is kept at each step.
      epsilon: number added to the variance.
      center_scale: whether to learn a scale and an offset for each channel.
      regularizer: regulariser of the scale.
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
        """Returns the normalised ``x``, ``[..., hidden]`` in the dtype of ``x``.

        Args:
          x: ``[..., hidden]`` of any floating-point dtype; in training, must be finite also where the mask is False.
          mask: boolean ``[...]``; positions where it is False are excluded from the statistics.
          training: whether to use the batch statistics, and to update the moving statistics.
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
        valid = tf.ones([tf.shape(rows)[0]], tf.bool) if mask is None else tf.reshape(mask, [-1])
        (count,) = sum_over_ranks(tf.reduce_sum(tf.cast(valid, tf.float32)))
        y, mean, variance = normalize_batch(rows, None if mask is None else valid, gamma, beta, self.epsilon, count)
        if not current_pass().is_recomputing:
            # A batch without valid rows must not change the moving statistics.
            rate = tf.where(count > 0.0, 1.0 - self.momentum, 0.0)
            for moving, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
                change = rate * (tf.stop_gradient(new) - moving)
                # Non-finite changes are ignored: the optimizer skips the update for such a batch too.
                moving.assign_add(tf.where(tf.math.is_finite(change), change, 0.0))
        return y
