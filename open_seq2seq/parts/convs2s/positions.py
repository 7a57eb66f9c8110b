"""Learned position embeddings."""

from __future__ import annotations

import tensorflow as tf

from open_seq2seq.parts.component import Module


class PositionEmbedding(Module):
    """A table ``[positions, channels]`` of embeddings; later positions use its last row.

    Args:
      positions: number of rows.
      channels: number of channels.
      deviation: standard deviation of the initial values.
    """

    def __init__(self, positions: int, channels: int, deviation: float) -> None:
        super().__init__(name="position_embedding")
        self.table = self.weight([positions, channels], tf.keras.initializers.RandomNormal(0.0, deviation))

    def __call__(self, positions: tf.Tensor) -> tf.Tensor:
        """Returns the embeddings ``[…, channels]`` FP32 of integer positions ``[…]``, which are counted from 0."""
        return tf.gather(tf.convert_to_tensor(self.table), tf.minimum(positions, self.table.shape[0] - 1))
