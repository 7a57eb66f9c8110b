"""A recurrent network that attends to a source at each step and feeds the attention output into the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.dropout import keep_mask, keep_scale
from open_seq2seq.parts.portable import in_shape
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.attention import AdditiveAttention, Memory
from open_seq2seq.parts.rnn.layers import Direction


class SpellerState(NamedTuple):
    """State that one step passes to the next.

    Attributes:
      cells: the states of each layer's cell, ``[batch, beam, hidden]`` FP32 each.
      attended: the previous step's output, ``[batch, beam, heads · hidden]`` in the compute dtype.
      coverage: for each head, the ``coverage`` of ``AdditiveAttention``, ``[batch, beam, source]`` FP32.
    """

    cells: list[list[tf.Tensor]]
    attended: tf.Tensor
    coverage: list[tf.Tensor]


class Speller(Module):
    """Recurrent layers, and attention heads whose query is the output of the last layer.

    The output of a head is a matrix times the concatenation of the last layer's output and the head's context. The
    concatenated outputs of all heads are the output of the network. Together with the next symbol, they are also the
    input of the next step (input feeding, Luong et al. 2015, https://arxiv.org/abs/1508.04025, section 3.3).

    Args:
      input_size: number of channels of the embedded symbols.
      memory_size: number of channels of the source.
      hidden_size: number of units per layer, and number of channels of each head's output.
      num_layers: number of recurrent layers.
      cell_type: ``lstm`` or ``gru``.
      attention: the arguments ``kind``, ``units`` and ``use_coverage`` of ``AdditiveAttention``.
      num_heads: number of attention heads.
      initializer: initialiser of the weights.
      regularizer: regulariser of the matrices.
    """

    def __init__(self, input_size: int, memory_size: int, hidden_size: int, num_layers: int, cell_type: str,
                 attention: dict[str, Any], num_heads: int = 1, initializer: Any = None,
                 regularizer: Any = None) -> None:
        super().__init__(name="speller")
        self._hidden_size = hidden_size
        self.output_size = num_heads * hidden_size
        self.layers = []
        size = input_size + self.output_size
        for _ in range(num_layers):
            self.layers.append(Direction(size, hidden_size, cell_type, initializer, regularizer))
            size = hidden_size
        self.heads = [AdditiveAttention(memory_size=memory_size, query_size=hidden_size, initializer=initializer,
                                        regularizer=regularizer, **attention) for _ in range(num_heads)]
        self.output_kernels = [self.weight([hidden_size + memory_size, hidden_size], initializer,
                                           regularizer=regularizer) for _ in range(num_heads)]

    def memories(self, source: tf.Tensor, lengths: tf.Tensor) -> list[Memory]:
        """Returns each head's keys and values of a source.

        Args:
          source: ``[batch, source, memory_size]`` in the compute dtype.
          lengths: lengths of the source, ``[batch]``.
        """
        return [head.memory(source, lengths) for head in self.heads]

    def initial_state(self, source: tf.Tensor, beam_size: int) -> SpellerState:
        """Returns a state of zeros for ``beam_size`` hypotheses per utterance.

        Args:
          source: ``[batch, source, memory_size]`` in the compute dtype.
          beam_size: number of hypotheses.
        """
        batch, time = tf.shape(source)[0], tf.shape(source)[1]
        cells = [[tf.zeros([batch, beam_size, self._hidden_size]) for _ in range(layer.cell.num_states)]
                 for layer in self.layers]
        coverage = [tf.zeros(tf.stack([batch, beam_size, time])) for _ in self.heads]
        return SpellerState(cells, tf.zeros([batch, beam_size, self.output_size], source.dtype), coverage)

    def prepare(self, dtype: tf.DType) -> list[tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]]:
        """Returns (input matrix, bias, recurrent weights) of each layer for ``step``, in ``dtype``.

        Callers call this once for all steps.
        """
        return [(cast_weight(layer.kernel, dtype), tf.cast(layer.bias, dtype), layer.step_weights(dtype))
                for layer in self.layers]

    def step(self, embedded: tf.Tensor, state: SpellerState, memories: Sequence[Memory], prepared: Any,
             factors: Sequence[tf.Tensor] | None = None) -> tuple[SpellerState, list[tf.Tensor]]:
        """Advances every hypothesis by one symbol.

        Args:
          embedded: embedded symbols, ``[batch, beam, input_size]`` in the compute dtype.
          state: state after the previous step.
          memories: result of ``memories``.
          prepared: result of ``prepare``.
          factors: dropout factors for each layer's output, of the output's shape; None disables dropout.

        Returns:
          (new state, whose ``attended`` is the output of the network; for each head, its attention weights
          ``[batch, beam, source]`` FP32).
        """
        beams, cells = tf.shape(embedded)[:2], []
        # In beam search, the static number of channels is unknown.
        x = tf.concat([embedded, in_shape(state.attended, [None, None, self.output_size])], -1)
        for number, (layer, (kernel, bias, weights)) in enumerate(zip(self.layers, prepared, strict=True)):
            rows = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), kernel) + bias
            before = tuple(tf.reshape(part, [-1, self._hidden_size]) for part in state.cells[number])
            after, _ = layer.cell.step(rows, before, weights)
            shape = tf.concat([beams, [self._hidden_size]], 0)
            cells.append([in_shape(tf.reshape(part, shape), old.shape)
                          for part, old in zip(after, state.cells[number], strict=True)])
            x = tf.cast(cells[-1][0], x.dtype)
            x = x if factors is None else x * factors[number]
        return self._attend(x, cells, state, memories)

    def _attend(self, x: tf.Tensor, cells: Any, state: SpellerState, memories: Sequence[Memory],
                ) -> tuple[SpellerState, list[tf.Tensor]]:
        outputs, coverage, weights = [], [], []
        for head, kernel, before, memory in zip(self.heads, self.output_kernels, state.coverage, memories, strict=True):
            context, weight, after = head(x, before, memory)
            outputs.append(times_matrix(tf.concat([x, context], -1), cast_weight(kernel, x.dtype)))
            coverage.append(in_shape(after, before.shape))
            weights.append(weight)
        return SpellerState(cells, in_shape(tf.concat(outputs, -1), state.attended.shape), coverage), weights

    def __call__(self, embedded: tf.Tensor, source: tf.Tensor, lengths: tf.Tensor, dropout_rate: float = 0.0,
                 training: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs over given symbols (teacher forcing).

        Args:
          embedded: embedded symbols, ``[batch, time, input_size]`` in the compute dtype.
          source: ``[batch, source, memory_size]`` in the compute dtype.
          lengths: lengths of the source, ``[batch]``.
          dropout_rate: dropout rate after each recurrent layer.
          training: whether to apply dropout.

        Returns:
          (outputs ``[batch, time, output_size]``, attention weights ``[batch, time, heads, source]`` FP32).
        """
        batch, time = tf.shape(embedded)[0], tf.shape(embedded)[1]
        memories, prepared = self.memories(source, lengths), self.prepare(source.dtype)
        inputs = tf.transpose(embedded, [1, 0, 2])[:, :, tf.newaxis]
        dropped = training and dropout_rate > 0.0
        shape = tf.stack([time, batch, 1, self._hidden_size])
        factors = [tf.where(keep_mask(shape, dropout_rate), tf.cast(keep_scale(dropout_rate), source.dtype), 0.0)
                   for _ in self.layers] if dropped else []
        outputs = tf.TensorArray(source.dtype, time, element_shape=[None, 1, self.output_size])
        looks = tf.TensorArray(tf.float32, time, element_shape=[None, len(self.heads), None])

        def body(step: tf.Tensor, state: SpellerState, outputs: tf.TensorArray, looks: tf.TensorArray) -> Any:
            step_factors = [factor[step] for factor in factors] if dropped else None
            state, weights = self.step(inputs[step], state, memories, prepared, step_factors)
            return step + 1, state, outputs.write(step, state.attended), looks.write(step, tf.concat(weights, 1))

        start = (tf.constant(0), self.initial_state(source, 1), outputs, looks)
        _, _, outputs, looks = tf.while_loop(lambda step, *_: step < time, body, start, maximum_iterations=time)
        attended = tf.transpose(outputs.stack()[:, :, 0], [1, 0, 2])
        return attended, tf.transpose(looks.stack(), [1, 0, 2, 3])
