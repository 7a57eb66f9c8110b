"""The output layer of language models and text classifiers, and the input of losses that compute logits in chunks."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.component import Component, Module
from open_seq2seq.parts.cross_entropy import SoftTargets, label_surprises, projected_cross_entropy
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.observation import is_observing
from open_seq2seq.parts.precision import cast_weight, of_weights


class OutputProjection(NamedTuple):
    """Hidden states and the table that projects them to logits, for a loss that computes the logits in chunks.

    Attributes:
      hidden: ``[batch, time, hidden]`` in the compute dtype.
      table: ``[vocabulary, hidden]`` FP32; the logits are ``hidden · tableᵀ``.
      training: whether gradients are needed.
    """

    hidden: tf.Tensor
    table: tf.Tensor
    training: bool

    @property
    def num_ids(self) -> int:
        """Number of columns of the logits."""
        return int(self.table.shape[0])

    def cross_entropy(self, rows: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, targets: SoftTargets) -> tf.Tensor:
        """Returns the weighted sum of the cross-entropies of some rows of ``hidden``, an FP32 scalar.

        Args:
          rows: ``[rows, hidden]``.
          labels: ``[rows]`` int32.
          weights: ``[rows]`` FP32, without a gradient.
          targets: probabilities of the label and of the other ids.
        """
        return projected_cross_entropy(rows, self.table, labels, weights, targets, self.training)

    def negative_log_probs(self, rows: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Returns minus the log probability of each label in nats, ``[rows]`` FP32.

        Args:
          rows: some rows of ``hidden``, ``[rows, hidden]``.
          labels: ``[rows]`` int32.
        """
        kernel = tf.cast(self.table, rows.dtype)
        return label_surprises(rows, labels, lambda part: tf.matmul(part, kernel, transpose_b=True))


def needs_logits(component: Component) -> bool:
    """Returns whether a forward pass has to compute the logits in addition to a projection.

    In training, only the losses that do not use projections need them, and reports on the values of all tensors.
    """
    return not component.training or is_observing() or getattr(getattr(component.model, "loss", None), "needs_logits",
                                                               True)


def with_bias(hidden: tf.Tensor, table: tf.Tensor, bias: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
    """Appends a channel of ones to ``hidden`` and the bias to ``table``, so that their product includes the bias.

    Without a bias, ``hidden`` and ``table`` are returned unchanged.

    Args:
      hidden: ``[…, hidden]``.
      table: ``[rows, hidden]`` FP32.
      bias: ``[rows]`` FP32, or None.

    Returns:
      (hidden states ``[…, hidden + 1]``, table ``[rows, hidden + 1]``).
    """
    if bias is None:
        return hidden, table
    ones = tf.ones(tf.concat([tf.shape(hidden)[:-1], [1]], 0), hidden.dtype)
    return tf.concat([hidden, ones], -1), tf.concat([table, tf.convert_to_tensor(bias)[:, tf.newaxis]], 1)


class OutputLayer(Module):
    """Projects hidden states to logits, with a separate matrix or with an embedding table (tied weights).

    See Inan et al. 2017, https://arxiv.org/abs/1611.01462, for tied weights.

    Args:
      hidden_size: number of channels of the hidden states.
      vocab_size: number of ids or classes.
      table: embedding table ``[vocab_size, hidden_size]`` to use; None to create a matrix.
      use_bias: whether to add a bias.
      initializer: initialiser of the matrix.
      regularizer: regulariser of the matrix.
    """

    def __init__(self, hidden_size: int, vocab_size: int, table: tf.Variable | None = None, use_bias: bool = True,
                 initializer: Any = None, regularizer: Any = None) -> None:
        super().__init__(name="output_layer")
        self._tied = table
        if table is None:
            self.kernel = self.weight([vocab_size, hidden_size], initializer, regularizer=regularizer)
        self.bias = self.weight([vocab_size], "zeros") if use_bias else None

    @property
    def table(self) -> tf.Variable:
        """The matrix ``[vocab_size, hidden_size]``."""
        return self.kernel if self._tied is None else self._tied

    def prepare(self, dtype: tf.DType) -> tf.Tensor:
        """Returns the matrix ``[hidden, vocab_size]`` in ``dtype``, for several calls of ``logits``."""
        return of_weights(lambda: tf.transpose(cast_weight(self.table, dtype)))

    def logits(self, hidden: tf.Tensor, prepared: tf.Tensor | None = None) -> tf.Tensor:
        """Projects ``[…, hidden]`` to logits ``[…, vocab_size]`` in FP32.

        Generation passes ``prepared``, the result of ``prepare``, because TensorFlow's product of few rows with a
        transposed matrix (``transpose_b``) is slow on a CPU.
        """
        product = times_matrix(hidden, self.prepare(hidden.dtype) if prepared is None else prepared)
        product = tf.cast(product, tf.float32)
        return product if self.bias is None else product + self.bias

    def projection(self, hidden: tf.Tensor, training: bool) -> OutputProjection:
        """Returns the hidden states and the table, from which a loss computes the logits in chunks.

        With a bias, hidden states and table have a further channel; see ``with_bias``.

        Args:
          hidden: ``[batch, time, hidden]`` in the compute dtype.
          training: whether gradients are needed.
        """
        return OutputProjection(*with_bias(hidden, tf.convert_to_tensor(self.table), self.bias), training)
