"""Recurrent layers and stacks of layers for padded batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dense import add_bias
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.portable import in_shape
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.cells import CELLS, Cell, Zoneout
from open_seq2seq.parts.rnn.recurrence import recurrence

# For each gate in cuDNN's order, its index in the order of ``cells``. cuDNN's order is input, forget, candidate, output
# for an LSTM, and reset, update, candidate for a GRU.
GATE_ORDER = {"lstm": (0, 1, 3, 2), "gru": (1, 0, 2)}


def cudnn_serves(cell: Cell) -> bool:
    """Returns whether cuDNN can compute a cell.

    This requires that cuDNN supports the cell type, that there is a GPU, and that the code is not traced for XLA.
    """
    return cell.name in GATE_ORDER and not current_pass().for_xla and bool(tf.config.list_logical_devices("GPU"))


def packed_weights(direction: Any, dtype: tf.DType) -> tf.Tensor:
    """Returns the weights ``[number of weights]`` in cuDNN's order: all matrices, transposed, gate by gate; all biases.

    cuDNN has an input bias and a recurrent bias for each gate. The bias of the ``Direction`` is the input bias; the
    recurrent bias is 0, except for a GRU's candidate.

    Args:
      direction: the ``Direction`` that has the weights.
      dtype: float32 or float16.
    """
    name, hidden = direction.cell.name, direction.hidden_size
    order = GATE_ORDER[name]

    def by_gate(tensor: tf.Tensor) -> list[tf.Tensor]:
        parts = tf.split(tensor, direction.cell.gates, axis=-1)
        return [parts[gate] for gate in order]

    matrices = [matrix for kernel in (direction.input_kernel(dtype), direction.step_weights(dtype)[0])
                for matrix in by_gate(kernel)]
    biases = [tf.cast(bias, dtype) for bias in by_gate(tf.convert_to_tensor(direction.bias))]
    recurrent = [tf.zeros([hidden], dtype) for _ in order]
    if name == "gru":
        recurrent[-1] = tf.cast(direction.recurrent_bias, dtype)
    return tf.concat([*(tf.reshape(tf.transpose(matrix), [-1]) for matrix in matrices), *biases, *recurrent], 0)


def cudnn_outputs(direction: Any, x: tf.Tensor, lengths: tf.Tensor, states: Sequence[tf.Tensor]) -> tf.Tensor:
    """Runs a layer in cuDNN; returns the outputs ``[time, batch, hidden]`` in the dtype of ``x``.

    Args:
      direction: the ``Direction`` that has the weights.
      x: ``[time, batch, input]``; bfloat16 is computed in float32, because older versions of TensorFlow have no kernel
        for it.
      lengths: ``[batch]`` in steps; for empty rows, one step is computed, whose output the caller masks.
      states: initial states, ``[batch, hidden]`` FP32 each, the output first.
    """
    dtype = tf.float32 if x.dtype == tf.bfloat16 else x.dtype
    shape = tf.shape(x)
    steps, rows = shape[0], shape[1]
    # The kernel rejects inputs without steps or examples, so one step or example of zeros is added to such inputs.
    more_rows = tf.maximum(1 - rows, 0)
    x_padded = tf.pad(tf.cast(x, dtype), [[0, tf.maximum(1 - steps, 0)], [0, more_rows], [0, 0]])
    lengths = tf.maximum(tf.pad(lengths, [[0, more_rows]]), 1)
    first = [tf.pad(tf.cast(state, dtype), [[0, more_rows], [0, 0]])[tf.newaxis] for state in states]
    inner = first[1] if len(first) > 1 else tf.zeros([], dtype)
    # The operation has a gradient only with is_training=True; it applies no dropout.
    outputs = tf.raw_ops.CudnnRNNV3(
        input=x_padded, input_h=first[0], input_c=inner, params=packed_weights(direction, dtype),
        sequence_lengths=lengths, rnn_mode=direction.cell.name, is_training=True, time_major=True)
    output = tf.cast(outputs.output[:steps, :rows], x.dtype)
    return in_shape(output, [*x.shape[:2], direction.hidden_size])


@tf.custom_gradient
def permute_steps(x: tf.Tensor, order: tf.Tensor) -> Any:
    """Permutes the steps and examples of ``x``.

    The permutation must be its own inverse, so that the gradient can be computed by the same gather.

    Args:
      x: ``[time, batch, columns]``, read as rows ``[time · batch, columns]``.
      order: int32 ``[time · batch]``, for each row of the result, the index of the row of ``x``; ``order[order]`` must
        be 0, 1, 2, …
    """

    def gather(x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.gather(tf.reshape(x, [-1, x.shape[-1]]), order), tf.shape(x))

    return in_shape(gather(x), x.shape), lambda dy: (gather(dy), None)


def reversing_order(lengths: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
    """Returns the permutation for ``permute_steps`` that reverses the steps of each example and does not move padding.

    Args:
      lengths: ``[batch]`` in steps.
      time: number of steps in the padded batch.

    Returns:
      int32 ``[time · batch]``.
    """
    step = tf.range(time)[:, tf.newaxis]
    source = tf.where(step < lengths, lengths - 1 - step, step)
    batch = tf.shape(lengths)[0]
    return tf.reshape(source * batch + tf.range(batch), [-1])


class Direction(Module):
    """A cell with its weights, applied in one direction over time.

    Args:
      input_size: number of input channels.
      hidden_size: number of units.
      cell_type: ``lstm``; ``gru``, whose reset gate is applied after the matrix product, as in cuDNN; ``classic_gru``,
        whose reset gate is applied before it; ``layernorm_lstm``; ``projected_lstm``; or ``input_lstm``, whose gates
        depend on the input alone.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
      use_cudnn: whether to use cuDNN where it supports the cell; the weights are the same.
      gate_bias: initial bias of an LSTM's forget gate (default: 1) or of a GRU's update and reset gates (default: 0).
      output_size: number of output channels of ``projected_lstm``; by default, and for other cells, ``hidden_size``.

    Attributes:
      state_sizes: number of columns of each state; the first is the output's.
      zoneout_rate: see ``cells.Zoneout``; 0 by default.
    """

    def __init__(self, input_size: int, hidden_size: int, cell_type: str, initializer: Any = None,
                 regularizer: Any = None, use_cudnn: bool = True, gate_bias: float | None = None,
                 output_size: int | None = None) -> None:
        super().__init__(name="direction")
        self.cell: Cell = CELLS[cell_type]
        self.hidden_size, self.output_size = hidden_size, output_size or hidden_size
        self.state_sizes = [self.output_size, hidden_size][:self.cell.num_states]
        self.use_cudnn, self.zoneout_rate = use_cudnn, 0.0
        self._make_matrices(input_size, initializer, regularizer)
        is_lstm = self.cell.num_states == 2
        opened = float(is_lstm) if gate_bias is None else gate_bias

        def start(shape: Sequence[int]) -> tf.Tensor:  # the gate bias where it applies, else 0
            first = 0.0 if is_lstm else opened
            parts = [tf.fill([hidden_size], first), tf.fill([hidden_size], opened),
                     tf.zeros([shape[0] - 2 * hidden_size])]
            return tf.concat(parts, 0)

        if cell_type == "layernorm_lstm":
            self.scale = self.weight([5 * hidden_size], "ones")
            self.offset = self.weight([5 * hidden_size], start)
        else:
            self.bias = self.weight([self.columns], start)
        if cell_type == "gru":
            self.recurrent_bias = self.weight([hidden_size], "zeros")

    @property
    def columns(self) -> int:
        """Number of columns of the projected input."""
        return self.cell.gates * self.hidden_size

    def _make_matrices(self, input_size: int, initializer: Any, regularizer: Any) -> None:
        columns, hidden, name = self.columns, self.hidden_size, self.cell.name
        self.kernel = self.weight([input_size, columns], initializer, regularizer=regularizer)
        if name != "input_lstm":
            self.recurrent_kernel = self.weight(
                [self.output_size, columns - hidden if name == "classic_gru" else columns], initializer,
                regularizer=regularizer)
        if name == "classic_gru":
            self.candidate_kernel = self.weight([hidden, hidden], initializer, regularizer=regularizer)
        elif name == "projected_lstm":
            self.projection = self.weight([hidden, self.output_size], initializer, regularizer=regularizer)

    def input_kernel(self, dtype: tf.DType, training: bool = False) -> tf.Tensor:
        """Returns the matrix of the input, ``[input, gates · hidden]``, in ``dtype``."""
        return cast_weight(self.kernel, dtype)

    def project(self, rows: tf.Tensor) -> tf.Tensor:
        """Projects inputs ``[rows, input]`` to ``[rows, gates · hidden]``, including the bias, in the compute dtype."""
        return self.with_bias(tf.matmul(rows, self.input_kernel(rows.dtype)))

    def with_bias(self, projected: tf.Tensor) -> tf.Tensor:
        """Adds the bias, if the cell has one, to products ``[rows, gates · hidden]``."""
        if self.cell.name == "layernorm_lstm":
            return projected
        return add_bias(projected, tf.convert_to_tensor(self.bias))

    def bias_or_zeros(self) -> tf.Tensor:
        """Returns the bias ``[gates · hidden]`` FP32, zeros if the cell has none."""
        if self.cell.name == "layernorm_lstm":
            return tf.zeros([self.columns])
        return tf.convert_to_tensor(self.bias)

    def step_weights(self, dtype: tf.DType, training: bool = False) -> list[tf.Tensor]:
        """Returns the weights for ``Cell.step``: matrices in ``dtype``, vectors in FP32."""
        if self.cell.name == "input_lstm":
            return []
        weights = [cast_weight(self.recurrent_kernel, dtype)]
        if self.cell.name == "classic_gru":
            weights.append(cast_weight(self.candidate_kernel, dtype))
        elif self.cell.name == "projected_lstm":
            weights.append(cast_weight(self.projection, dtype))
        elif self.cell.name == "gru":
            weights.append(tf.convert_to_tensor(self.recurrent_bias))
        elif self.cell.name == "layernorm_lstm":
            weights += [tf.convert_to_tensor(self.scale), tf.convert_to_tensor(self.offset)]
        return weights

    def cell_and_masks(self, like: tf.Tensor, training: bool) -> tuple[Cell, tf.Tensor | None]:
        """Returns the cell for ``recurrence``, and the masks that the cell expects after the projected input, if any.

        Args:
          like: tensor ``[time, batch, …]`` that gives the size and dtype of the masks.
          training: whether to apply the cell's own dropout and zoneout.

        Returns:
          (cell; masks ``[time, batch, columns]``, which have no gradient, or None).
        """
        cell, masks = self.own_cell(like, training)
        if not self.zoneout_rate:
            return cell, masks
        cell = Zoneout(cell, self.zoneout_rate, self.state_sizes, training)
        if training:
            masks = cell.masks(like) if masks is None else tf.concat([masks, cell.masks(like)], -1)
        return cell, masks

    def own_cell(self, like: tf.Tensor, training: bool) -> tuple[Cell, tf.Tensor | None]:
        """Returns the cell without zoneout, and its masks; see ``cell_and_masks``.

        Subclasses whose cells need masks override this method.
        """
        return self.cell, None

    def step_cell(self) -> Cell:
        """Returns the cell for single steps, without random numbers."""
        return Zoneout(self.cell, self.zoneout_rate, self.state_sizes, False) if self.zoneout_rate else self.cell

    def initial_states(self, batch: tf.Tensor) -> list[tf.Tensor]:
        """Returns zeros for each state of the cell, ``[batch, size]`` FP32."""
        return [tf.zeros([batch, size]) for size in self.state_sizes]

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, states: Sequence[tf.Tensor] | None = None,
                 training: bool = False) -> list[tf.Tensor]:
        """Runs the cell over time; see ``recurrence`` for the result.

        Args:
          x: ``[time, batch, input]`` in the compute dtype.
          lengths: ``[batch]`` in steps.
          states: initial states of the cell, ``[batch, size]`` FP32 each, the output first; zeros by default.
          training: whether to apply the cell's own dropout and zoneout.
        """
        states = self.initial_states(tf.shape(x)[1]) if states is None else list(states)
        # An LSTM cannot run in cuDNN here, because cuDNN does not return its inner state after every step.
        if self._uses_cudnn(training) and self.cell.num_states == 1:
            return [cudnn_outputs(self, x, lengths, states)]
        rows = self.with_bias(tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), self.input_kernel(x.dtype, training)))
        projected = tf.reshape(rows, tf.concat([tf.shape(x)[:2], [self.columns]], 0))
        cell, masks = self.cell_and_masks(x, training)
        projected = projected if masks is None else tf.concat([projected, masks], -1)
        return recurrence(cell, projected, states, self.step_weights(x.dtype, training))

    def _uses_cudnn(self, training: bool) -> bool:
        """Returns whether this layer runs in cuDNN."""
        return self.use_cudnn and not self.zoneout_rate and cudnn_serves(self.cell)

    def outputs(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns only the outputs ``[time, batch, output_size]``; unlike ``__call__``, can run LSTMs in cuDNN.

        Args:
          x: ``[time, batch, input]`` in the compute dtype.
          lengths: ``[batch]`` in steps; the caller masks the outputs after an example's end.
          training: whether to apply the cell's own dropout and zoneout.
        """
        if self._uses_cudnn(training):
            return cudnn_outputs(self, x, lengths, self.initial_states(tf.shape(x)[1]))
        return self(x, lengths, training=training)[0]


class RecurrentLayer(Module):
    """A unidirectional or bidirectional recurrent layer; padding does not affect the results.

    See Schuster and Paliwal 1997, https://doi.org/10.1109/78.650093, for bidirectional layers.

    Args:
      input_size: number of input channels.
      hidden_size: number of units per direction.
      cell_type: see ``Direction``.
      bidirectional: whether to concatenate the outputs of a second pass that starts at each example's end.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
      use_cudnn: see ``Direction``.
      make_direction: function that creates each direction; all other arguments except ``bidirectional`` are then
        ignored.
    """

    def __init__(self, input_size: int, hidden_size: int, cell_type: str, bidirectional: bool = False,
                 initializer: Any = None, regularizer: Any = None, use_cudnn: bool = True,
                 make_direction: Callable[[], Direction] | None = None) -> None:
        super().__init__(name="recurrent_layer")

        def direction() -> Direction:
            return Direction(input_size, hidden_size, cell_type, initializer, regularizer, use_cudnn)

        make = make_direction or direction
        self.forward, self.backward = make(), make() if bidirectional else None
        self.output_size = self.forward.output_size * (2 if bidirectional else 1)

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns the outputs ``[time, batch, output_size]``, which are zeros after each example's end.

        Args:
          x: ``[time, batch, input]`` in the compute dtype.
          lengths: ``[batch]`` int32, in steps.
          training: whether to apply the cells' own dropout and zoneout.
        """
        outputs = [self.forward.outputs(x, lengths, training)]
        if self.backward is not None:
            order = reversing_order(lengths, tf.shape(x)[0])
            outputs.append(permute_steps(self.backward.outputs(permute_steps(x, order), lengths, training), order))
        return zero_padding(tf.concat(outputs, -1), lengths)

    def with_final_states(self, x: tf.Tensor, lengths: tf.Tensor,
                          training: bool = False) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Returns the outputs, and the states of the cells after each example's last step.

        The arguments are those of ``__call__``.

        Returns:
          (outputs ``[time, batch, output_size]``, zeros after each example's end; states ``[batch, size]`` FP32 each).
          In a bidirectional layer, each state is the concatenation of the states of both directions.
        """
        outputs, states = final_states(self.forward, x, lengths, training)
        if self.backward is not None:
            order = reversing_order(lengths, tf.shape(x)[0])
            back, others = final_states(self.backward, permute_steps(x, order), lengths, training)
            outputs = tf.concat([outputs, permute_steps(back, order)], -1)
            states = [tf.concat(both, -1) for both in zip(states, others, strict=True)]
        return zero_padding(outputs, lengths), states


def zero_padding(outputs: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Sets ``[time, batch, channels]`` to zero after each example's end; ``lengths`` are ``[batch]`` in steps."""
    mask = tf.range(tf.shape(outputs)[0])[:, tf.newaxis] < lengths
    return tf.where(mask[:, :, tf.newaxis], outputs, tf.zeros([], outputs.dtype))


def last_values(history: tf.Tensor, first: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns a state after the last step of each example, ``[batch, size]`` FP32.

    Args:
      history: the state after every step, ``[time, batch, size]``.
      first: the state before the first step, ``[batch, size]`` FP32, which examples without steps keep.
      lengths: ``[batch]`` int32, in steps.
    """
    rows = tf.range(tf.shape(lengths)[0])
    steps = tf.concat([tf.cast(first, tf.float32)[tf.newaxis], tf.cast(history, tf.float32)], 0)
    return in_shape(tf.gather_nd(steps, tf.stack([lengths, rows], 1)), first.shape)


def final_states(direction: Direction, x: tf.Tensor, lengths: tf.Tensor, training: bool = False,
                 states: Sequence[tf.Tensor] | None = None) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Runs a ``Direction``, and also returns the states at the end of each example.

    Args:
      direction: the cell with its weights.
      x: ``[time, batch, input]`` in the compute dtype.
      lengths: ``[batch]`` int32, in steps.
      training: whether to apply the cell's own dropout and zoneout.
      states: initial states of the cell, ``[batch, size]`` FP32 each; zeros by default.

    Returns:
      (outputs ``[time, batch, output_size]``; the states after each example's last step, ``[batch, size]`` FP32 each,
      the initial ones for examples without steps).
    """
    first = direction.initial_states(tf.shape(x)[1]) if states is None else states
    histories = direction(x, lengths, first, training)
    return histories[0], [last_values(history, state, lengths)
                          for history, state in zip(histories, first, strict=True)]


class RecurrentStack(Module):
    """A stack of recurrent layers.

    The input of each layer is the output of the layer below; in a bidirectional stack, the concatenated outputs of both
    directions.

    Args:
      input_size: number of input channels.
      hidden_size: number of units per direction and layer.
      num_layers: number of layers; may be 0.
      cell_type: see ``Direction``.
      bidirectional: whether all layers are bidirectional.
      dropout_rate: dropout rate after each layer.
      drop_last: whether to apply dropout also to the last layer's output; cuDNN's own stacks do not.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
      use_cudnn: see ``Direction``.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int, cell_type: str, bidirectional: bool = False,
                 dropout_rate: float = 0.0, drop_last: bool = False, initializer: Any = None,
                 regularizer: Any = None, use_cudnn: bool = True) -> None:
        super().__init__(name="recurrent_stack")
        self.dropout_rate, self.drop_last = dropout_rate, drop_last
        self.layers = []
        for _ in range(num_layers):
            self.layers.append(RecurrentLayer(
                input_size, hidden_size, cell_type, bidirectional, initializer, regularizer, use_cudnn))
            input_size = self.layers[-1].output_size
        self.output_size = input_size

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns the outputs ``[batch, time, output_size]`` in the dtype of ``x``.

        Args:
          x: ``[batch, time, input]`` in the compute dtype.
          lengths: ``[batch]`` int32, in steps.
          training: whether to apply dropout.
        """
        x = tf.transpose(x, [1, 0, 2])  # makes each step contiguous in memory
        for number, layer in enumerate(self.layers, 1):
            x = layer(x, lengths)
            if number < len(self.layers) or self.drop_last:
                x = dropout(x, self.dropout_rate, training)
        return tf.transpose(x, [1, 0, 2])


class ResidualLayer(Module):
    """A recurrent layer with dropout of its input and output, and optionally a residual connection.

    The residual connection adds the input, after dropout, to the cell's output.

    Args:
      direction: the cell with its weights.
      residual: whether to add the input to the output.
      drop_input: dropout rate of the input.
      drop_output: dropout rate of the output, after the residual connection.
    """

    def __init__(self, direction: Direction, residual: bool, drop_input: float = 0.0,
                 drop_output: float = 0.0) -> None:
        super().__init__(name="residual_layer")
        self.direction, self.residual = direction, residual
        self.drop_input, self.drop_output = drop_input, drop_output
        self.output_size = direction.output_size

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False, context: tf.Tensor | None = None,
                 states: Sequence[tf.Tensor] | None = None) -> tf.Tensor:
        """Returns the outputs ``[time, batch, output_size]`` in the dtype of ``x``.

        Args:
          x: ``[time, batch, input]`` in the compute dtype.
          lengths: ``[batch]`` int32, in steps; outputs after an example's end are arbitrary.
          training: whether to apply dropout.
          context: ``[time, batch, channels]``, further input of the cell, to which the residual connection does not
            apply.
          states: initial states of the cell, ``[batch, size]`` FP32 each; zeros by default.
        """
        joined = dropout(x if context is None else tf.concat([x, context], -1), self.drop_input, training)
        if states is None:
            y = self.direction.outputs(joined, lengths, training)
        else:
            y = self.direction(joined, lengths, states, training)[0]
        return self._finish(y, joined, x.shape[-1], training)

    def with_final_states(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False,
                          states: Sequence[tf.Tensor] | None = None) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Returns the outputs, and the cell's states after each example's last step.

        The arguments are those of ``__call__``.

        Returns:
          (outputs ``[time, batch, output_size]``, states ``[batch, size]`` FP32 each).
        """
        joined = dropout(x, self.drop_input, training)
        y, after = final_states(self.direction, joined, lengths, training, states)
        return self._finish(y, joined, x.shape[-1], training), after

    def _finish(self, y: tf.Tensor, joined: tf.Tensor, size: int, training: bool) -> tf.Tensor:
        return dropout(y + joined[..., :size] if self.residual else y, self.drop_output, training)


def run_layers(layers: Sequence[ResidualLayer], x: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
    """Applies the layers one after another; returns the outputs of the last layer, ``[time, batch, output_size]``.

    The arguments are those of ``ResidualLayer.__call__``.
    """
    for layer in layers:
        x = layer(x, lengths, training)
    return x


def run_with_states(layers: Sequence[ResidualLayer], x: tf.Tensor, lengths: tf.Tensor,
                    training: bool = False) -> tuple[tf.Tensor, list[list[tf.Tensor]]]:
    """Applies the layers one after another, as ``run_layers`` does, and also returns their final states.

    Returns:
      (outputs of the last layer ``[time, batch, output_size]``; for each layer, its states after each example's last
      step, ``[batch, size]`` FP32 each).
    """
    states = []
    for layer in layers:
        x, layer_states = layer.with_final_states(x, lengths, training)
        states.append(layer_states)
    return x, states
