"""A stack of recurrent layers that attend to a source, for decoders of translation models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from open_seq2seq.parts.attention_record import record_attention
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dropout import dropout, keep_mask, keep_scale
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.attention import GlobalAttention, Memory
from open_seq2seq.parts.rnn.fed_recurrence import FedLayer, FedWeights, fed_recurrence
from open_seq2seq.parts.rnn.residual import ResidualLayer


class AttentiveState(NamedTuple):
    """State that one step passes to the next.

    Attributes:
      cells: the states of each layer's cell, ``[batch, beam, hidden]`` FP32 each.
      context: the context of the step, ``[batch, beam, memory_size]`` in the compute dtype.
    """

    cells: list[list[tf.Tensor]]
    context: tf.Tensor


class AttentiveStack(Module):
    """Recurrent layers, some of which attend to the source, with residual connections.

    The first ``num_inner`` layers give the query. With ``input_feeding`` they read, besides the embedded symbol, the
    context of the step before, and so have to be computed step by step. Without it, whole layers run over time, and all
    steps attend at once. The layers above, if any, read the output of the layer below and the context of the same step,
    or with ``delayed`` that of the step before; they always run over time as whole layers.

    Args:
      layers: the layers, whose inputs have the sizes just described.
      attention: the attention; its query is the output of layer ``num_inner``.
      num_inner: number of layers before the attention.
      memory_size: number of channels of the source.
      input_feeding: whether the first layer also reads the context of the step before.
      delayed: whether the layers above the attention read the context of the step before.
    """

    def __init__(self, layers: Sequence[ResidualLayer], attention: GlobalAttention, num_inner: int, memory_size: int,
                 input_feeding: bool = True, delayed: bool = False) -> None:
        super().__init__(name="attentive_stack")
        self.layers, self.attention = list(layers), attention
        self.num_inner, self.memory_size = num_inner, memory_size
        self.input_feeding, self.delayed = input_feeding, delayed
        # Without layers above the attention, the context alone is the output.
        self.output_size = self.layers[-1].output_size if len(self.layers) > num_inner else memory_size

    def memory(self, source: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """Returns the memory of a source ``[batch, source, memory_size]`` in the compute dtype."""
        return self.attention.memory(source, lengths)

    def __call__(self, embedded: tf.Tensor, lengths: tf.Tensor, memory: Memory,
                 training: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs over given symbols (teacher forcing).

        Args:
          embedded: embedded symbols, ``[time, batch, input]`` in the compute dtype.
          lengths: their number, ``[batch]``; outputs after it are arbitrary.
          memory: the source.
          training: whether to apply dropout.

        Returns:
          (outputs ``[time, batch, output_size]``, attention weights ``[time, batch, source]`` FP32).
        """
        inner, outer = self.layers[:self.num_inner], self.layers[self.num_inner:]
        if self.input_feeding:
            x, contexts, weights = self._fed(embedded, memory, training)
        else:
            x = embedded
            for layer in inner:
                x = layer(x, lengths, training)
            contexts, weights = self.attention(tf.transpose(x, [1, 0, 2]), memory)
            contexts, weights = tf.transpose(contexts, [1, 0, 2]), tf.transpose(weights, [1, 0, 2])
        record_attention(tf.transpose(weights, [1, 0, 2])[:, tf.newaxis])
        if not outer:
            return contexts, weights
        if self.delayed:
            contexts = tf.pad(contexts, [[1, 0], [0, 0], [0, 0]])[:-1]
        for layer in outer:
            x = layer(x, lengths, training, contexts)
        return x, weights

    def _fed(self, embedded: tf.Tensor, memory: Memory, training: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Runs the layers before the attention, and the attention, step by step."""
        dtype, inner = embedded.dtype, self.layers[:self.num_inner]
        first = inner[0].direction
        size = embedded.shape[-1]
        kernel = cast_weight(first.kernel, dtype)
        x = dropout(embedded, inner[0].drop_input, training)
        x = tf.reshape(x, [-1, size])
        x = first.with_bias(tf.matmul(x, kernel[:size]))
        x = tf.reshape(x, tf.concat([tf.shape(embedded)[:2], [kernel.shape[1]]], 0))
        sizes = [self.memory_size, *(layer.output_size for layer in inner)]
        layers = [FedLayer(layer.direction.cell, layer.residual,
                           _factors(embedded, sizes[number], layer.drop_input, training),
                           _factors(embedded, sizes[number + 1], layer.drop_output, training))
                  for number, layer in enumerate(inner)]
        others = [layer.direction for layer in inner[1:]]
        weights = FedWeights(
            x, memory.keys, memory.values, self.attention.weights(dtype),
            (kernel[size:], *(cast_weight(other.kernel, dtype) for other in others)),
            tuple(other.bias_or_zeros() for other in others),
            tuple(tuple(layer.direction.step_weights(dtype)) for layer in inner))
        return fed_recurrence(layers, weights, memory.held)

    def initial_state(self, source: tf.Tensor, beam_size: int) -> AttentiveState:
        """Returns a state of zeros for ``beam_size`` hypotheses for each row of ``source`` ``[batch, …]``."""
        batch = tf.shape(source)[0]
        cells = [[tf.zeros([batch, beam_size, layer.output_size]) for _ in range(layer.direction.cell.num_states)]
                 for layer in self.layers]
        return AttentiveState(cells, tf.zeros([batch, beam_size, self.memory_size], source.dtype))

    def step(self, embedded: tf.Tensor, state: AttentiveState, memory: Memory) -> tuple[tf.Tensor, AttentiveState]:
        """Advances every hypothesis by one symbol.

        Args:
          embedded: embedded symbols, ``[batch, beam, input]`` in the compute dtype.
          state: state after the previous step.
          memory: the source.

        Returns:
          (output ``[batch, beam, output_size]``, new state).
        """
        # Beam search loses the static number of channels.
        before = tf.ensure_shape(state.context, [None, None, self.memory_size])
        cells: list[list[tf.Tensor]] = []
        x = context = embedded
        for number, layer in enumerate(self.layers):
            extra = before if number == 0 and self.input_feeding else None
            if number >= self.num_inner:
                extra = before if self.delayed else context
            x, after = _step_layer(layer, x, extra, state.cells[number])
            cells.append(after)
            if number == self.num_inner - 1:
                context, weights = self.attention(x, memory)
                record_attention(weights[:, tf.newaxis])
        output = x if len(self.layers) > self.num_inner else context
        return output, AttentiveState(cells, tf.ensure_shape(context, state.context.shape))


def _factors(like: tf.Tensor, size: int, rate: float, training: bool) -> tf.Tensor | None:
    """Returns dropout factors ``[time, batch, size]`` in the dtype of ``like`` ``[time, batch, …]``, or None."""
    if not training or rate == 0.0:
        return None
    kept = keep_mask(tf.concat([tf.shape(like)[:2], [size]], 0), rate)
    return tf.ensure_shape(tf.where(kept, tf.cast(keep_scale(rate), like.dtype), 0.0), [None, None, size])


def _step_layer(layer: ResidualLayer, x: tf.Tensor, extra: tf.Tensor | None,
                states: Sequence[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Advances a layer by one step; returns its output ``[batch, beam, hidden]`` and new states."""
    direction, beams = layer.direction, tf.shape(x)[:2]
    joined = x if extra is None else tf.concat([x, extra], -1)
    rows = direction.project(tf.reshape(joined, [-1, joined.shape[-1]]))
    before = tuple(tf.reshape(state, [-1, layer.output_size]) for state in states)
    after, _ = direction.cell.step(rows, before, direction.step_weights(x.dtype))
    shape = tf.concat([beams, [layer.output_size]], 0)
    new = [tf.ensure_shape(tf.reshape(part, shape), old.shape) for part, old in zip(after, states, strict=True)]
    y = tf.ensure_shape(tf.cast(new[0], x.dtype), [None, None, layer.output_size])
    return (y + x if layer.residual else y), new
