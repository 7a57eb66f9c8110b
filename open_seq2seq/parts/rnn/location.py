"""Location-sensitive attention: the scores also depend on the positions that previous steps attended to."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.attention import GlobalAttention


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
