"""The position-wise feed-forward sublayer."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dense import add_bias, bias_relu_dropped, scaled_weight
from open_seq2seq.parts.dropout import keep_scale
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.observation import observe
from open_seq2seq.parts.precision import of_weights
from open_seq2seq.parts.row_selection import gather_rows, rows_to_compute, scatter_rows


class FeedForward(Module):
    """``relu(x W₁ + b₁) W₂ + b₂`` with dropout after the ReLU (Vaswani et al. 2017, §3.3).

    Args:
      hidden_size: number of input and output channels.
      filter_size: number of channels between the two matrices.
      relu_dropout: dropout rate after the ReLU.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
    """

    def __init__(self, hidden_size: int, filter_size: int, relu_dropout: float = 0.0, initializer: Any = None,
                 regularizer: Any = None) -> None:
        super().__init__(name="feed_forward")
        self.relu_dropout = relu_dropout
        self.filter_kernel = self.weight([hidden_size, filter_size], initializer, regularizer=regularizer)
        self.filter_bias = self.weight([filter_size], "zeros")
        self.output_kernel = self.weight([filter_size, hidden_size], initializer, regularizer=regularizer)
        self.output_bias = self.weight([hidden_size], "zeros")

    def kernels(self, dtype: tf.DType, training: bool = False, output_scale: float = 1.0) -> list[tf.Tensor]:
        """Returns the weights for ``__call__``; decoding computes them once for all steps.

        Args:
          dtype: the compute dtype.
          training: whether to apply dropout. The scale of dropout multiplies the first matrix and bias, because a
            positive factor before a ReLU has the same effect as after it.
          output_scale: factor that multiplies the result; it is applied to the second matrix and bias.
        """
        scale = keep_scale(self.relu_dropout, training)
        return of_weights(lambda: [
            scaled_weight(self.filter_kernel, scale, dtype), self.filter_bias * scale,
            scaled_weight(self.output_kernel, output_scale, dtype), self.output_bias * output_scale])

    def __call__(self, x: tf.Tensor, kernels: list[tf.Tensor], training: bool = False,
                 mask: tf.Tensor | None = None) -> tf.Tensor:
        """Transforms each position; returns ``[..., hidden]``.

        Args:
          x: ``[..., hidden]`` in the compute dtype.
          kernels: the result of the method ``kernels``.
          training: whether to apply dropout.
          mask: boolean ``[...]``; if given, most positions where it is False are not computed but set to zeros, except
            for XLA.
        """
        shape = tf.shape(x)
        flat = tf.reshape(x, [-1, x.shape[-1]])
        if mask is None or current_pass().for_xla:
            return tf.reshape(self._transform(flat, kernels, training), shape)
        rows = rows_to_compute(tf.reshape(mask, [-1]))
        y = self._transform(gather_rows(flat, rows), kernels, training)
        return tf.reshape(scatter_rows(y, rows, tf.shape(flat)[0]), shape)

    def _transform(self, x: tf.Tensor, kernels: list[tf.Tensor], training: bool) -> tf.Tensor:
        filter_kernel, filter_bias, output_kernel, output_bias = kernels
        filtered = bias_relu_dropped(tf.matmul(x, filter_kernel), filter_bias, self.relu_dropout, training)
        observe(filtered, "filtered")
        return add_bias(tf.matmul(filtered, output_kernel), output_bias)
