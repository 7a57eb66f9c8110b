"""An embedding table that the source, the target and the output projection can share."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.observation import observe
from open_seq2seq.parts.precision import cast_weight, of_weights

# Added to the logits of ids that must not be chosen.
_NEVER = -1e9


@tf.custom_gradient
def scaled_rows(table: tf.Tensor, ids: tf.Tensor, factors: tf.Tensor) -> Any:
    """Returns ``factors · table[ids]``, with a dense gradient of the table.

    The output projection gives the table a dense gradient too, and adding two dense gradients is faster than adding
    rows to a dense one.

    Args:
      table: ``[rows, hidden]`` FP32.
      ids: ``[n]`` int32.
      factors: ``[n, 1]`` or ``[1, 1]`` FP32.

    Returns:
      ``[n, hidden]`` FP32.
    """
    rows = tf.shape(table)[0]

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None, None]:
        updates = tf.cast(dy, tf.float32) * factors
        return tf.math.unsorted_segment_sum(updates, ids, rows), None, None

    return tf.gather(table, ids) * factors, grad


class SharedEmbedding(Module):
    """Embedding lookup and output projection with the same table ``[rows, hidden]``.

    Args:
      vocab_size: number of ids.
      hidden_size: number of channels.
      pad_to_eight: whether to round the number of rows up to a multiple of eight, for which half-precision matrix units
        are faster.
      regularizer: regulariser of the table.
      deviation: standard deviation of the initial values; 1/√hidden by default.
      scale: factor that ``lookup`` multiplies embeddings by; √hidden by default.
    """

    def __init__(self, vocab_size: int, hidden_size: int, pad_to_eight: bool = False, regularizer: Any = None,
                 deviation: float | None = None, scale: float | None = None) -> None:
        super().__init__(name="embedding")
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.rows = -(-vocab_size // 8) * 8 if pad_to_eight else vocab_size
        self.scale = math.sqrt(hidden_size) if scale is None else scale
        initializer = tf.keras.initializers.RandomNormal(0.0, hidden_size ** -0.5 if deviation is None else deviation)
        self.table = self.weight([self.rows, hidden_size], initializer, regularizer=regularizer)

    def lookup(self, ids: tf.Tensor) -> tf.Tensor:
        """Looks up the embeddings of ids and multiplies them by ``scale``.

        Args:
          ids: int32 tensor of any shape; the embedding of 0 (padding) and of ids outside the table is zeros.

        Returns:
          ``[..., hidden]`` FP32.
        """
        flat = tf.reshape(ids, [-1])
        valid = (flat > 0) & (flat < self.rows)
        factors = tf.where(valid, self.scale, 0.0)[:, None]
        rows = scaled_rows(tf.convert_to_tensor(self.table), tf.where(valid, flat, 0), factors)
        embedded = tf.reshape(rows, tf.concat([tf.shape(ids), [self.hidden_size]], 0))
        observe(embedded, "lookup", self)
        return embedded

    def logits(self, hidden: tf.Tensor) -> tf.Tensor:
        """Projects ``[..., hidden]`` to logits ``[..., rows]`` in the dtype of ``hidden``."""
        flat = tf.reshape(hidden, [-1, self.hidden_size])
        logits = tf.matmul(flat, cast_weight(self.table, hidden.dtype), transpose_b=True)
        return tf.reshape(logits, tf.concat([tf.shape(hidden)[:-1], [self.rows]], 0))

    def output_matrix(self, vocab_size: int, dtype: tf.DType) -> tf.Tensor:
        """Returns the table's first ``vocab_size`` rows, transposed, ``[hidden, vocab_size]`` in ``dtype``.

        Decoders call this once per batch, to compute the logits step by step, because TensorFlow's product of few rows
        with a transposed matrix (``transpose_b``) is slow on a CPU.
        """
        return of_weights(lambda: tf.transpose(tf.cast(self.table[:vocab_size], dtype)))


def mask_extra_ids(logits: tf.Tensor, vocab_size: int) -> tf.Tensor:
    """Returns logits ``[…, rows]`` that exclude ids from ``vocab_size`` on, in case the table has additional rows."""
    rows = logits.shape[-1]
    if rows == vocab_size:
        return logits
    return logits + tf.cast(tf.where(tf.range(rows) < vocab_size, 0.0, _NEVER), logits.dtype)
