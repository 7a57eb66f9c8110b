"""Self-attention that also attends to a sequence's earlier chunks (Dai et al. 2019, https://arxiv.org/abs/1901.02860)."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.carried_state import CarriedState
from open_seq2seq.parts.transformer.attention import SelfAttention, attend


class MemoryAttention(SelfAttention):
    """Self-attention with a memory: the keys and values of the last positions are carried over to the next chunk.

    No gradient flows into earlier chunks.

    Args:
      memory_length: number of positions in the memory.
      args: the arguments of ``SelfAttention``.
    """

    def __init__(self, memory_length: int, *args: Any) -> None:
        super().__init__(*args)
        self._memory_length = memory_length
        shape = [self.num_heads, memory_length, self.depth]
        self.keys, self.values = self.carried_state(shape), self.carried_state(shape)

    def continued(self, x: tf.Tensor, lengths: tf.Tensor, bias: tf.Tensor, training: bool = False,
                  output_scale: float = 1.0) -> tf.Tensor:
        """Attends from chunks to themselves and to the memory; updates the memory.

        Args:
          x: ``[batch, time, hidden]``.
          lengths: lengths of the chunks ``[batch]`` int32.
          bias: FP32 tensor that broadcasts to ``[batch, heads, time, memory_length + time]``; it has to mask the
            positions of the memory that are still empty.
          training: whether to apply dropout.
          output_scale: factor that multiplies the result; it is applied to the output matrix.

        Returns:
          ``[batch, time, hidden]``.
        """
        query, key, value = self._split(x, self.projection("qkv", x.dtype, training))
        key, value = self._extended(self.keys, key, lengths), self._extended(self.values, value, lengths)
        context = attend(query, key, value, bias, self.dropout_rate, training)
        return self._merge(context, self.output_projection(x.dtype, output_scale))

    def _extended(self, memory: CarriedState, new: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Appends ``new`` ``[batch, heads, time, depth]`` to the memory along time; updates the memory.

        Returns:
          ``[batch, heads, memory_length + time, depth]``.
        """
        whole = tf.concat([tf.cast(memory.read(), new.dtype), new], 2)
        last = lengths[:, tf.newaxis] + tf.range(self._memory_length)
        memory.write(tf.gather(whole, last, axis=2, batch_dims=1))
        return whole
