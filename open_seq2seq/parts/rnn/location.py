"""Location-sensitive attention: the scores also, or only, depend on the positions that previous steps attended to."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.attention import GlobalAttention, Memory

_TAPS, _FILTERS = 21, 8  # of the static and the dynamic filters of dynamic convolution attention
_PRIOR_TAPS, _ALPHA, _BETA = 11, 0.1, 0.9  # of its prior
_LEAST_PRIOR = 1e-6


def location_windows(coverage: tf.Tensor, taps: int) -> tf.Tensor:
    """Returns the neighbourhood of each position, zeros outside of the source; ``[batch, source, taps]``.

    The window of position j begins at position j - (taps - 1) // 2.

    Args:
      coverage: ``[batch, source]``.
      taps: number of positions in each neighbourhood.
    """
    before, source = (taps - 1) // 2, tf.shape(coverage)[1]
    padded = tf.pad(coverage, [[0, 0], [before, taps - 1 - before]])
    return tf.gather(padded, tf.range(source)[:, tf.newaxis] + tf.range(taps), axis=1)


def location_sums(d_windows: tf.Tensor) -> tf.Tensor:
    """Returns the gradient of ``coverage`` ``[batch, source]`` for that of ``location_windows(coverage, taps)``."""
    taps, source = d_windows.shape[2], tf.shape(d_windows)[1]
    before = (taps - 1) // 2
    # Position j is tap k of the window of position j - k + before.
    padded = tf.pad(d_windows, [[0, 0], [taps - 1 - before, before], [0, 0]])
    rows = tf.range(source)[:, tf.newaxis] + taps - 1 - tf.range(taps)
    flat = tf.reshape(padded, [tf.shape(padded)[0], -1])
    return tf.reduce_sum(tf.gather(flat, rows * taps + tf.range(taps), axis=1), -1)


class LocationAttention(GlobalAttention):
    """Additive attention with the scores ``v · tanh(key + query + location + bias)``.

    The location term is computed from the sum of the attention weights of all previous steps by a convolution over
    the source with a bias, and a matrix (Chorowski et al. 2015, https://arxiv.org/abs/1506.07503; Shen et al. 2018,
    https://arxiv.org/abs/1712.05884, section 2.2).

    Args:
      memory_size: number of channels of the source.
      query_size: number of channels of the query.
      units: size of the space in which keys and queries are compared.
      use_bias: whether there is a bias inside the tanh, besides that of the convolution.
      filters: number of filters of the convolution.
      taps: width of the filters, in source positions.
      initializer: initialiser of the matrices, filters and of ``v``.
      regularizer: regulariser of the matrices and filters.
    """

    def __init__(self, memory_size: int, query_size: int, units: int, use_bias: bool = False, filters: int = 32,
                 taps: int = 32, initializer: Any = None, regularizer: Any = None) -> None:
        super().__init__("bahdanau", memory_size, query_size, units, initializer=initializer, regularizer=regularizer)
        self.inner_bias = self.weight([units], "zeros") if use_bias else None
        self.filters = self.weight([taps, 1, filters], initializer, regularizer=regularizer)
        self.filter_bias = self.weight([filters], "zeros")
        self.location_kernel = self.weight([filters, units], initializer, regularizer=regularizer)

    def location(self, dtype: tf.DType) -> tuple[tf.Tensor, ...]:
        """Returns the value of ``location`` in ``fed_recurrence.FedWeights``: filters and matrix as one product."""
        return (tf.cast(tf.matmul(self.filters[:, 0], self.location_kernel), dtype),)

    def weights(self, dtype: tf.DType) -> tuple[tf.Tensor, ...]:
        bias = tf.matmul(self.filter_bias[tf.newaxis], self.location_kernel)[0]
        bias = bias if self.inner_bias is None else bias + self.inner_bias
        return cast_weight(self.query_kernel, dtype), bias, self.direction()


def _step_prior() -> list[float]:
    """Returns the probability of each number of symbols that a step goes on: a beta-binomial distribution."""
    def log_beta(a: float, b: float) -> float:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    n = _PRIOR_TAPS - 1
    return [math.comb(n, k) * math.exp(log_beta(k + _ALPHA, n - k + _BETA) - log_beta(_ALPHA, _BETA))
            for k in range(_PRIOR_TAPS)]


def dynamic_scores(query: tf.Tensor, before: tf.Tensor, vector: tf.Tensor,
                   weights: tuple[tf.Tensor, ...]) -> tf.Tensor:
    """Returns the scores ``[batch, source]`` of ``DynamicConvolutionAttention``, in FP32.

    Args:
      query: the projected query before the tanh, ``[batch, units]``.
      before: the attention weights of the previous step, ``[batch, source]`` FP32.
      vector: ``v``, ``[units]`` FP32.
      weights: see ``DynamicConvolutionAttention.dynamic``.
    """
    static, kernel, matrix, bias = weights

    @tf.custom_gradient
    def windows(coverage: tf.Tensor) -> Any:
        return location_windows(coverage, _TAPS), location_sums

    around = tf.ensure_shape(windows(before), [None, None, _TAPS])
    filters = tf.reshape(tf.matmul(tf.tanh(tf.cast(query, tf.float32)), kernel), [-1, _TAPS, _FILTERS])
    inside = tf.matmul(around, static + times_matrix(filters, matrix))
    # The first taps of a window are the positions up to its centre.
    prior = tf.linalg.matvec(around[..., :_PRIOR_TAPS], tf.constant(_step_prior()[::-1]))
    return tf.linalg.matvec(tf.tanh(inside + bias), vector) + tf.math.log(tf.maximum(prior, _LEAST_PRIOR))


class DynamicConvolutionAttention(GlobalAttention):
    """Attention that depends only on the previous attention weights and the query, not on the source.

    The scores are ``v · tanh(U f + T g + b) + log p``: ``f`` are convolutions of the previous weights with learned
    filters, ``g`` those with filters that are computed from the query, and ``p`` a convolution with the prior
    probabilities of going on by 0 to 10 symbols, one on average (Battenberg et al. 2020,
    https://arxiv.org/abs/1910.10288). All is computed in FP32.

    Args:
      query_size: number of channels of the query.
      units: number of channels inside the tanh, and of the layer that computes filters.
      initializer: initialiser of the matrices, filters and of ``v``.
      regularizer: regulariser of the matrices and filters.
    """

    def __init__(self, query_size: int, units: int, initializer: Any = None, regularizer: Any = None) -> None:
        super(GlobalAttention, self).__init__(name="attention")
        self.is_additive, self.units, self.normalized = True, units, False
        self.query_kernel = self.weight([query_size, units], initializer, regularizer=regularizer)
        self.query_bias = self.weight([units], "zeros")
        self.filter_kernel = self.weight([units, _TAPS * _FILTERS], initializer, regularizer=regularizer)
        self.dynamic_kernel = self.weight([_FILTERS, units], initializer, regularizer=regularizer)
        self.filters = self.weight([_TAPS, 1, _FILTERS], initializer, regularizer=regularizer)
        self.location_kernel = self.weight([_FILTERS, units], initializer, regularizer=regularizer)
        self.inner_bias = self.weight([units], "zeros")
        self.score_vector = self.weight([units, 1], initializer)

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """Returns the values of a source, and keys without channels."""
        return Memory(values[..., :0], values, tf.sequence_mask(lengths, tf.shape(values)[1]))

    def weights(self, dtype: tf.DType) -> tuple[tf.Tensor, ...]:
        return cast_weight(self.query_kernel, dtype), tf.convert_to_tensor(self.query_bias), self.direction()

    def dynamic(self) -> tuple[tf.Tensor, ...]:
        """Returns the value of ``dynamic`` in ``fed_recurrence.FedWeights``."""
        static = tf.matmul(self.filters[:, 0], self.location_kernel)
        others = (self.filter_kernel, self.dynamic_kernel, self.inner_bias)
        return static, *(tf.convert_to_tensor(one) for one in others)
