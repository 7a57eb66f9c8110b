"""Additive attention for recurrent decoders, optionally location-aware."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.primitives import convolve
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.precision import cast_weight

KINDS = ("bahdanau", "chorowski", "zhaopeng")
_FILTERS, _TAPS = 10, 101


class Memory(NamedTuple):
    """Keys and values of the source, the same for all steps and all hypotheses of an utterance.

    Attributes:
      keys: ``[batch, source, units]`` in the compute dtype.
      values: ``[batch, source, channels]`` in the compute dtype.
      held: boolean ``[batch, source]``, False at padding.
    """

    keys: tf.Tensor
    values: tf.Tensor
    held: tf.Tensor


class AdditiveAttention(Module):
    """Attention with the scores ``v · tanh(key + query + location)``.

    * ``bahdanau`` has no location term (Bahdanau et al. 2014, https://arxiv.org/abs/1409.0473); ``v`` is normalised and
      has a learned scale (Salimans and Kingma 2016, https://arxiv.org/abs/1602.07868).
    * ``chorowski``: the location term is a convolution over previous attention weights (Chorowski et al. 2015,
      https://arxiv.org/abs/1506.07503).
    * ``zhaopeng``: the location term is the sum of previous weights times a fertility computed from the query (Tu et
      al. 2016, https://arxiv.org/abs/1601.04811).

    Args:
      kind: one of ``KINDS``.
      memory_size: number of channels of the source.
      query_size: number of channels of the query.
      units: size of the space in which keys and queries are compared.
      use_coverage: whether ``chorowski`` uses the sum of the weights of all previous steps instead of the weights of
        the last step.
      initializer: initialiser of the matrices, vectors and filters.
      regularizer: regulariser of the matrices.
    """

    def __init__(self, kind: str, memory_size: int, query_size: int, units: int, use_coverage: bool = True,
                 initializer: Any = None, regularizer: Any = None) -> None:
        super().__init__(name="attention")
        self._kind = kind
        self._adds_up = use_coverage or kind == "zhaopeng"
        self.memory_kernel = self.weight([memory_size, units], initializer, regularizer=regularizer)
        self.query_kernel = self.weight([query_size, units], initializer, regularizer=regularizer)
        self.score_vector = self.weight([units, 1], initializer)
        self.bias = self.weight([units], "zeros")
        if kind == "bahdanau":
            self.score_scale = self.weight([], lambda _: tf.constant(units ** -0.5))
        elif kind == "chorowski":
            self.place_filters = self.weight([_TAPS, 1, _FILTERS], initializer)
            self.place_bias = self.weight([_FILTERS], "zeros")
            self.place_kernel = self.weight([_FILTERS, units], initializer, regularizer=regularizer)
        else:
            self.fertility_vector = self.weight([query_size, 1], initializer)
            self.place_kernel = self.weight([1, units], initializer, regularizer=regularizer)

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """Returns the keys and values of a source.

        Args:
          values: the source, ``[batch, source, memory_size]`` in the compute dtype.
          lengths: lengths of the source, ``[batch]``.
        """
        keys = times_matrix(values, cast_weight(self.memory_kernel, values.dtype))
        return Memory(keys, values, tf.sequence_mask(lengths, tf.shape(values)[1]))

    def __call__(self, query: tf.Tensor, looked: tf.Tensor, memory: Memory) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Attends once for each hypothesis.

        Args:
          query: ``[batch, beam, query_size]`` in the compute dtype.
          looked: the third result of the previous step, ``[batch, beam, source]`` FP32; zeros at the first step.
          memory: keys and values of the source.

        Returns:
          (contexts ``[batch, beam, memory_size]``; attention weights ``[batch, beam, source]`` FP32; ``looked`` for the
          next step, ``[batch, beam, source]`` FP32).
        """
        dtype = memory.keys.dtype
        inside = times_matrix(query, cast_weight(self.query_kernel, dtype)) + tf.cast(self.bias, dtype)
        inside = inside[:, :, tf.newaxis] + memory.keys[:, tf.newaxis]
        if self._kind != "bahdanau":
            inside += tf.cast(self._place(query, looked), dtype)
        vector = tf.convert_to_tensor(self.score_vector)
        if self._kind == "bahdanau":
            vector = vector * (self.score_scale / tf.norm(vector))
        scores = tf.cast(times_matrix(tf.tanh(inside), tf.cast(vector, dtype))[..., 0], tf.float32)
        # -1e9 instead of minus infinity, so that an empty source does not give NaN.
        weights = tf.nn.softmax(tf.where(memory.held[:, tf.newaxis], scores, -1e9))
        context = tf.matmul(tf.cast(weights, dtype), memory.values)
        return context, weights, looked + weights if self._adds_up else weights

    def _place(self, query: tf.Tensor, looked: tf.Tensor) -> tf.Tensor:
        """Returns the location term of the scores, ``[batch, beam, source, units]`` FP32."""
        if self._kind == "zhaopeng":
            vector = tf.convert_to_tensor(self.fertility_vector)
            fertility = tf.sigmoid(times_matrix(tf.cast(query, tf.float32), vector))
            return (fertility * looked)[..., tf.newaxis] * self.place_kernel[0]
        shape = tf.shape(looked)
        rows = tf.reshape(looked, [shape[0] * shape[1], shape[2], 1])
        found = convolve(rows, tf.convert_to_tensor(self.place_filters), [1], "SAME", [1]) + self.place_bias
        found = times_matrix(found, tf.convert_to_tensor(self.place_kernel))
        return tf.reshape(found, tf.concat([shape, [found.shape[-1]]], 0))
