"""Learned position embeddings."""

from __future__ import annotations

import tensorflow as tf

from open_seq2seq.parts.component import Module


class PositionEmbedding(Module):
    """Table ``[positions, channels]``, whose last row is also used for all later positions.

    Args:
      positions: number of rows.
      channels: number of channels.
      deviation: standard deviation of the initial values.
    """

    def __init__(self, positions: int, channels: int, deviation: float) -> None:
        super().__init__(name="position_embedding")
        self.table = self.weight([positions, channels], tf.keras.initializers.RandomNormal(0.0, deviation))

    def __call__(self, positions: tf.Tensor) -> tf.Tensor:
        """Returns the embeddings ``[…, channels]`` of integer positions ``[…]``, FP32; the first position is 0."""
        return tf.gather(tf.convert_to_tensor(self.table), tf.minimum(positions, self.table.shape[0] - 1))
