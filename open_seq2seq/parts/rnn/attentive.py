"""A stack of recurrent layers that attend to a source, for decoders of translation models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.attention_record import record_attention
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.dropout import dropout, keep_mask, keep_scale
from open_seq2seq.parts.portable import in_shape
from open_seq2seq.parts.rnn.attention import GlobalAttention, Memory, MonotonicAttention
from open_seq2seq.parts.rnn.fed_recurrence import FedLayer, FedWeights, fed_recurrence, fed_step, first_weights
from open_seq2seq.parts.rnn.layers import ResidualLayer

CellStates = Sequence[Sequence[tf.Tensor]]


class AttentiveState(NamedTuple):
    """State that one step passes to the next.

    Attributes:
      cells: the states of each layer's cell, ``[batch, beam, size]`` FP32 each.
      context: the context of the step, ``[batch, beam, memory_size]`` in the compute dtype.
      weights: the attention weights of the step, ``[batch, beam, source]`` FP32, if the attention is monotonic;
        otherwise zeros ``[batch, beam, 1]``.
    """

    cells: list[list[tf.Tensor]]
    context: tf.Tensor
    weights: tf.Tensor


class FedState(NamedTuple):
    """State that one step of ``AttentiveStack.fed_stepper`` passes to the next.

    Attributes:
      cells: for each layer, the states of its cell, ``[batch, size]`` FP32 each.
      context: ``[batch, memory_size]`` in the compute dtype.
      before: see ``fed_recurrence.fed_step``.
    """

    cells: tuple[tuple[tf.Tensor, ...], ...]
    context: tf.Tensor
    before: tf.Tensor


class AttentiveStack(Module):
    """Recurrent layers, some of which attend to the source, with residual connections.

    The first ``num_inner`` layers compute the query. With ``input_feeding``, the first layer reads both the embedded
    symbol and the context of the previous step, so these layers and the attention are computed step by step. Without
    ``input_feeding``, each layer runs over all given symbols at once, and all steps attend at once.

    The layers above the attention, if any, read the output of the layer below and the context, either of the same step
    or, with ``delayed``, of the previous step. Each of these layers runs over all given symbols at once.

    Args:
      layers: the layers from the bottom up; the sizes of their inputs include the context where they read it.
      attention: the attention; its query is the output of layer ``num_inner``.
      num_inner: number of layers below the attention.
      memory_size: number of channels of the source.
      input_feeding: whether the first layer also reads the context of the previous step.
      delayed: whether the layers above the attention read the context of the previous step.
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
        """Returns the keys and values of a source ``[batch, source, memory_size]``; ``lengths`` are ``[batch]``."""
        return self.attention.memory(source, lengths)

    @property
    def state_sizes(self) -> list[list[int]]:
        """Number of columns of each layer's states."""
        return [layer.direction.state_sizes for layer in self.layers]

    def __call__(self, embedded: tf.Tensor, lengths: tf.Tensor, memory: Memory, training: bool = False,
                 states: CellStates | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs over given symbols (teacher forcing).

        Args:
          embedded: embedded symbols, ``[time, batch, input]`` in the compute dtype.
          lengths: numbers of symbols, ``[batch]``; outputs after an example's end are arbitrary.
          memory: the source.
          training: whether to apply dropout.
          states: initial states of each layer's cell, ``[batch, size]`` FP32; zeros by default.

        Returns:
          (outputs ``[time, batch, output_size]``, attention weights ``[time, batch, source]`` FP32).
        """
        first: Sequence[Any] = [None] * len(self.layers) if states is None else states
        inner, outer = self.layers[:self.num_inner], self.layers[self.num_inner:]
        if self.input_feeding:
            x, contexts, weights = self.fed(embedded, memory, training, first)
        else:
            x = embedded
            for layer, state in zip(inner, first[:self.num_inner], strict=True):
                x = layer(x, lengths, training, states=state)
            contexts, weights = self.attention(tf.transpose(x, [1, 0, 2]), memory, training)
            contexts, weights = tf.transpose(contexts, [1, 0, 2]), tf.transpose(weights, [1, 0, 2])
        record_attention(tf.transpose(weights, [1, 0, 2])[:, tf.newaxis])
        if not outer:
            return contexts, weights
        if self.delayed:
            contexts = tf.pad(contexts, [[1, 0], [0, 0], [0, 0]])[:-1]
        for layer, state in zip(outer, first[self.num_inner:], strict=True):
            x = layer(x, lengths, training, contexts, state)
        return x, weights

    def fed(self, embedded: tf.Tensor, memory: Memory, training: bool,
            states: Sequence[Any], through_weights: bool = False) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Computes the attention and the layers below it step by step.

        ``states`` has one entry for each layer, None for zeros. ``through_weights`` and the results are those of
        ``fed_recurrence``; the other arguments are those of ``__call__``.
        """
        inner = self.layers[:self.num_inner]
        kernel, weights = self._fed_weights(embedded.shape[-1], embedded.dtype, memory, training)
        x = times_matrix(dropout(embedded, inner[0].drop_input, training), kernel)
        x = tf.reshape(inner[0].direction.with_bias(tf.reshape(x, [-1, kernel.shape[1]])), tf.shape(x))
        batch = tf.shape(embedded)[1]
        first = [layer.direction.initial_states(batch) if state is None else state
                 for layer, state in zip(inner, states[:self.num_inner], strict=True)]
        noise: tf.Tensor | None = None
        if isinstance(self.attention, MonotonicAttention):
            shape = tf.concat([tf.shape(embedded)[:2], tf.shape(memory.mask)[1:]], 0)
            noise = self.attention.noise(shape, training)
        weights = weights._replace(x=x, states=tuple(tuple(state) for state in first))
        return fed_recurrence(self._loop_layers(embedded, training), weights, memory.mask, noise,
                              through_weights)

    def _fed_weights(self, size: int, dtype: tf.DType, memory: Memory,
                     training: bool) -> tuple[tf.Tensor, FedWeights]:
        """Returns the matrix of an embedded symbol with ``size`` channels, and the other weights of the loop.

        The projected input and the initial states are left out.
        """
        directions = [layer.direction for layer in self.layers[:self.num_inner]]
        kernel, *others = [direction.input_kernel(dtype, training) for direction in directions]
        is_monotonic = isinstance(self.attention, MonotonicAttention)
        return kernel[:size], FedWeights(
            tf.zeros([]), memory.keys, memory.values, self.attention.weights(dtype), (kernel[size:], *others),
            tuple(direction.bias_or_zeros() for direction in directions[1:]),
            tuple(tuple(direction.step_weights(dtype, training)) for direction in directions), (),
            (tf.convert_to_tensor(self.attention.score_bias),) if is_monotonic else (),
            self.attention.location(dtype), self.attention.dynamic())

    def fed_stepper(self, size: int, memory: Memory) -> tuple[FedState, Callable[..., Any]]:
        """Returns the first state of the loop of ``fed``, and a function that computes one step of it.

        The function takes an embedded symbol ``[batch, size]`` in the compute dtype, the state, and a mask
        ``[batch, source]`` that is False at positions that must not be attended to. It returns (output of the layers
        ``[batch, output]``, attention weights ``[batch, source]`` FP32, new state).

        Args:
          size: number of channels of an embedded symbol.
          memory: the source.
        """
        dtype, batch = memory.values.dtype, tf.shape(memory.keys)[0]
        kernel, weights = self._fed_weights(size, dtype, memory, False)
        layers = self._loop_layers(tf.zeros([1, 1, size], dtype), False)
        first = [layer.direction for layer in self.layers[:self.num_inner]]
        start = FedState(tuple(tuple(direction.initial_states(batch)) for direction in first),
                         tf.zeros([batch, self.memory_size], dtype), first_weights(weights))

        def step(embedded: tf.Tensor, state: FedState, mask: tf.Tensor) -> Any:
            x = first[0].with_bias(tf.matmul(embedded, kernel))
            cells, output, context, attended, before = fed_step(
                layers, weights._replace(x=x[tf.newaxis]), mask, *state)
            return output, attended, FedState(cells, context, before)

        return start, step

    def _loop_layers(self, embedded: tf.Tensor, training: bool) -> list[FedLayer]:
        """Returns the layers below the attention, with the dropout masks of this forward pass."""
        layers, size = [], self.memory_size
        for layer in self.layers[:self.num_inner]:
            cell, masks = layer.direction.cell_and_masks(embedded, training)
            layers.append(FedLayer(cell, layer.residual, _factors(embedded, size, layer.drop_input, training),
                                   _factors(embedded, layer.output_size, layer.drop_output, training), masks))
            size = layer.output_size
        return layers

    def initial_state(self, source: tf.Tensor, beam_size: int, states: CellStates | None = None) -> AttentiveState:
        """Returns the state before the first step, for ``beam_size`` hypotheses for each row of ``source``.

        Args:
          source: ``[batch, source, memory_size]`` in the compute dtype.
          beam_size: number of hypotheses.
          states: initial states of each layer's cell, ``[batch, size]`` FP32; zeros by default.
        """
        batch = tf.shape(source)[0]
        if states is None:
            cells = [[tf.zeros([batch, beam_size, size]) for size in sizes] for sizes in self.state_sizes]
        else:
            cells = [[tf.repeat(state[:, tf.newaxis], beam_size, 1) for state in layer] for layer in states]
        weights = tf.zeros([batch, beam_size, 1])  # other runtimes cannot hold arrays without columns
        if isinstance(self.attention, MonotonicAttention):
            weights = self.attention.first_weights([batch, beam_size], tf.shape(source)[1])
        return AttentiveState(cells, tf.zeros([batch, beam_size, self.memory_size], source.dtype), weights)

    def prepare(self, dtype: tf.DType) -> list[tuple[tf.Tensor, list[tf.Tensor]]]:
        """Returns (input matrix, recurrent weights) of each layer for ``step``; decoding calls this once."""
        return [(layer.direction.input_kernel(dtype), layer.direction.step_weights(dtype)) for layer in self.layers]

    def step(self, embedded: tf.Tensor, state: AttentiveState, memory: Memory,
             prepared: Sequence[tuple[tf.Tensor, list[tf.Tensor]]]) -> tuple[tf.Tensor, AttentiveState]:
        """Advances every hypothesis by one symbol.

        Args:
          embedded: embedded symbols, ``[batch, beam, input]`` in the compute dtype.
          state: state after the previous step.
          memory: the source.
          prepared: result of ``prepare``.

        Returns:
          (output ``[batch, beam, output_size]``, new state).
        """
        # In beam search, the static number of channels is unknown.
        before = in_shape(state.context, [None, None, self.memory_size])
        cells: list[list[tf.Tensor]] = []
        x = context = embedded
        weights = state.weights
        for number, layer in enumerate(self.layers):
            extra = before if number == 0 and self.input_feeding else None
            if number >= self.num_inner:
                extra = before if self.delayed else context
            x, after = _step_layer(layer, x, extra, state.cells[number], prepared[number])
            cells.append(after)
            if number == self.num_inner - 1:
                context, weights = self.attention(x, memory, before=state.weights)
                record_attention(weights[:, tf.newaxis])
        weights = weights if self.attention.is_monotonic else state.weights
        output = x if len(self.layers) > self.num_inner else context
        return output, AttentiveState(cells, in_shape(context, state.context.shape),
                                      in_shape(weights, state.weights.shape))


def _factors(like: tf.Tensor, size: int, rate: float, training: bool) -> tf.Tensor | None:
    """Returns dropout factors ``[time, batch, size]`` in the dtype of ``like`` ``[time, batch, …]``, or None."""
    if not training or rate == 0.0:
        return None
    mask = keep_mask(tf.concat([tf.shape(like)[:2], [size]], 0), rate)
    return in_shape(tf.where(mask, tf.cast(keep_scale(rate), like.dtype), 0.0), [None, None, size])


def _step_layer(layer: ResidualLayer, x: tf.Tensor, extra: tf.Tensor | None, states: Sequence[tf.Tensor],
                prepared: tuple[tf.Tensor, list[tf.Tensor]]) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Advances a layer by one step; returns its output ``[batch, beam, output_size]`` and new states."""
    direction, beams, (kernel, weights) = layer.direction, tf.shape(x)[:2], prepared
    joined = x if extra is None else tf.concat([x, extra], -1)
    rows = direction.with_bias(tf.matmul(tf.reshape(joined, [-1, joined.shape[-1]]), kernel))
    before = tuple(tf.reshape(state, [-1, size]) for state, size in zip(states, direction.state_sizes, strict=True))
    after, _ = direction.step_cell().step(rows, before, weights)
    new = [in_shape(tf.reshape(part, tf.concat([beams, [size]], 0)), old.shape)
           for part, old, size in zip(after, states, direction.state_sizes, strict=True)]
    y = in_shape(tf.cast(new[0], x.dtype), [None, None, layer.output_size])
    return (y + x if layer.residual else y), new
