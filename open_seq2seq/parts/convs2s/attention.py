"""Attention from a layer of the convolutional decoder to the source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.convs2s.normalized_layer import LayerSettings, NormalizedLayer
from open_seq2seq.parts.transformer.attention import attend


class SourceMemory(NamedTuple):
    """Keys and values of the source, to which all layers of a decoder attend.

    Attributes:
      keys: ``[batch, source time, size]``.
      values: ``[batch, source time, size]``.
      bias: FP32 ``[batch, 1, 1, source time]``, -1e9 at padding.
      root: square root of the source's length in tokens, ``[batch, 1, 1]``.
    """

    keys: tf.Tensor
    values: tf.Tensor
    bias: tf.Tensor
    root: tf.Tensor


class SourceAttention(Module):
    """Dot-product attention from a decoder layer to the source (Gehring et al. 2017, §3.3).

    The query is the layer's state, projected to the size of embeddings, plus the target's embedding. The weighted mean
    of the values is multiplied by the square root of the source's length, because averaging reduces the variance. Then
    it is projected to ``channels``.

    Args:
      channels: number of channels of the layer.
      size: number of channels of embeddings, keys and values.
      settings: normalisation, initialisation and regularisation of the projections.
      scaling: factor by which both sums (query plus target embedding, and the residual connection) are multiplied.
    """

    def __init__(self, channels: int, size: int, settings: LayerSettings, scaling: float) -> None:
        super().__init__(name="source_attention")
        self.scaling = scaling
        self.query = NormalizedLayer(channels, size, settings, channels ** -0.5)
        self.output = NormalizedLayer(size, channels, settings, size ** -0.5)

    def kernels(self, dtype: tf.DType) -> dict[str, tf.Tensor]:
        """Returns the normalised kernels for ``__call__``; decoding computes them once for all steps."""
        return {"query": self.query.normalized_kernel(dtype), "output": self.output.normalized_kernel(dtype)}

    def __call__(self, x: tf.Tensor, embedded: tf.Tensor, memory: SourceMemory, mask: tf.Tensor | None = None,
                 training: bool = False, kernels: Mapping[str, Any] | None = None) -> tf.Tensor:
        """Attends to the source and adds the result to the layer's state.

        The second axis is either time or the hypotheses of a beam, which share the memory of their sentence.

        Args:
          x: the layer's state, ``[batch, time or beam, channels]``.
          embedded: embeddings of the target, ``[batch, time or beam, size]``.
          memory: the source.
          mask: boolean ``[batch, time]``, False at padding, for batch statistics.
          training: whether to use batch statistics.
          kernels: the result of the method ``kernels``; None to compute the kernels in this call.

        Returns:
          ``[batch, time or beam, channels]``.
        """
        known = kernels or {}
        scaling = tf.cast(self.scaling, x.dtype)
        query = (self.query(x, mask, training, known.get("query")) + embedded) * scaling
        context = attend(query[:, tf.newaxis], memory.keys[:, tf.newaxis], memory.values[:, tf.newaxis], memory.bias,
                         to_source=True)
        context = context[:, 0] * memory.root
        return (self.output(context, mask, training, known.get("output")) + x) * scaling
