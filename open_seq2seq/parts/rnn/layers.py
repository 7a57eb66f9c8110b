"""Recurrent layers and stacks of layers for padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dense import add_bias
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.cells import CELLS, Cell
from open_seq2seq.parts.rnn.cudnn import cudnn_outputs, cudnn_serves
from open_seq2seq.parts.rnn.recurrence import recurrence


@tf.custom_gradient
def permute_steps(x: tf.Tensor, order: tf.Tensor) -> Any:
    """Permutes the rows of ``x`` by a permutation that is its own inverse, so that the gradient is the same gather.

    Args:
      x: ``[time, batch, columns]``.
      order: int32 ``[time · batch]``, the index of the row to move to each place; ``order[order]`` is 0, 1, 2, …
    """
    def gather(x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.gather(tf.reshape(x, [-1, x.shape[-1]]), order), tf.shape(x))

    return tf.ensure_shape(gather(x), x.shape), lambda dy: (gather(dy), None)


def reversing_order(lengths: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
    """Returns the permutation for ``permute_steps`` that reverses each example within its length.

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
      cell_type: ``lstm``, ``gru`` (reset after the product, as in cuDNN), ``classic_gru`` or ``layernorm_lstm``.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
      use_cudnn: whether to use cuDNN if it supports the cell; the weights are the same.
      gate_bias: initial bias of an LSTM's forget gate or of a GRU's update and reset gates; by default 1 and 0.
    """

    def __init__(self, input_size: int, hidden_size: int, cell_type: str, initializer: Any = None,
                 regularizer: Any = None, use_cudnn: bool = True, gate_bias: float | None = None) -> None:
        super().__init__(name="direction")
        self.cell: Cell = CELLS[cell_type]
        self.hidden_size = hidden_size
        self.use_cudnn = use_cudnn
        columns = self.cell.gates * hidden_size
        self.kernel = self.weight([input_size, columns], initializer, regularizer=regularizer)
        self.recurrent_kernel = self.weight(
            [hidden_size, columns - hidden_size if cell_type == "classic_gru" else columns], initializer,
            regularizer=regularizer)
        if cell_type == "classic_gru":
            self.candidate_kernel = self.weight([hidden_size, hidden_size], initializer, regularizer=regularizer)

        is_lstm = self.cell.num_states == 2
        opened = float(is_lstm) if gate_bias is None else gate_bias

        def start(shape: Sequence[int]) -> tf.Tensor:  # an LSTM's forget gate is open initially
            first = 0.0 if is_lstm else opened
            parts = [tf.fill([hidden_size], first), tf.fill([hidden_size], opened),
                     tf.zeros([shape[0] - 2 * hidden_size])]
            return tf.concat(parts, 0)

        if cell_type == "layernorm_lstm":
            self.scale = self.weight([5 * hidden_size], "ones")
            self.offset = self.weight([5 * hidden_size], start)
        else:
            self.bias = self.weight([columns], start)
        if cell_type == "gru":
            self.recurrent_bias = self.weight([hidden_size], "zeros")

    def project(self, rows: tf.Tensor) -> tf.Tensor:
        """Projects inputs ``[rows, input]`` to ``[rows, gates · hidden]``, including the bias, in the compute dtype."""
        return self.with_bias(tf.matmul(rows, cast_weight(self.kernel, rows.dtype)))

    def with_bias(self, projected: tf.Tensor) -> tf.Tensor:
        """Adds the bias, if the cell has one, to products ``[rows, gates · hidden]``."""
        if self.cell.name == "layernorm_lstm":
            return projected
        return add_bias(projected, tf.convert_to_tensor(self.bias))

    def bias_or_zeros(self) -> tf.Tensor:
        """Returns the bias ``[gates · hidden]`` FP32, zeros if the cell has none."""
        if self.cell.name == "layernorm_lstm":
            return tf.zeros([self.cell.gates * self.hidden_size])
        return tf.convert_to_tensor(self.bias)

    def step_weights(self, dtype: tf.DType) -> list[tf.Tensor]:
        """Returns the weights for ``Cell.step``: matrices in ``dtype``, the others in FP32."""
        weights = [cast_weight(self.recurrent_kernel, dtype)]
        if self.cell.name == "classic_gru":
            weights.append(cast_weight(self.candidate_kernel, dtype))
        elif self.cell.name == "gru":
            weights.append(tf.convert_to_tensor(self.recurrent_bias))
        elif self.cell.name == "layernorm_lstm":
            weights += [tf.convert_to_tensor(self.scale), tf.convert_to_tensor(self.offset)]
        return weights

    def initial_states(self, batch: tf.Tensor) -> list[tf.Tensor]:
        """Returns zeros for each state of the cell, ``[batch, hidden]`` FP32."""
        return [tf.zeros([batch, self.hidden_size]) for _ in range(self.cell.num_states)]

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, states: Sequence[tf.Tensor] | None = None,
                 training: bool = False) -> list[tf.Tensor]:
        """Runs the cell over time; see ``recurrence`` for the result.

        Args:
          x: ``[time, batch, input]`` in the compute dtype.
          lengths: ``[batch]`` in steps.
          states: initial states of the cell, ``[batch, hidden]`` FP32 each, the output first; zeros by default.
          training: whether to apply the cell's own dropout, if it has any.
        """
        states = self.initial_states(tf.shape(x)[1]) if states is None else list(states)
        # cuDNN returns only the outputs of all steps, which are all states of a GRU but not of an LSTM.
        if self.use_cudnn and self.cell.num_states == 1 and cudnn_serves(self.cell):
            return [cudnn_outputs(self, x, lengths, states)]
        columns = self.cell.gates * self.hidden_size
        projected = self.project(tf.reshape(x, [-1, x.shape[-1]]))
        projected = tf.reshape(projected, tf.concat([tf.shape(x)[:2], [columns]], 0))
        return recurrence(self.cell, projected, states, self.step_weights(x.dtype))

    def outputs(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns the outputs ``[time, batch, hidden]`` alone, which cuDNN computes for LSTMs too.

        Args:
          x: ``[time, batch, input]`` in the compute dtype.
          lengths: ``[batch]`` in steps; the caller masks the outputs after an example's end.
          training: whether to apply the cell's own dropout, if it has any.
        """
        if self.use_cudnn and cudnn_serves(self.cell):
            return cudnn_outputs(self, x, lengths, self.initial_states(tf.shape(x)[1]))
        return self(x, lengths)[0]


class RecurrentLayer(Module):
    """A unidirectional or bidirectional recurrent layer (Schuster and Paliwal 1997), exact on padded batches.

    Args:
      input_size: number of input channels.
      hidden_size: number of units per direction.
      cell_type: see ``Direction``.
      bidirectional: whether to concatenate the outputs of a second pass that starts at each example's end.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
      use_cudnn: see ``Direction``.
      gate_bias: see ``Direction``.
    """

    def __init__(self, input_size: int, hidden_size: int, cell_type: str, bidirectional: bool = False,
                 initializer: Any = None, regularizer: Any = None, use_cudnn: bool = True,
                 gate_bias: float | None = None) -> None:
        super().__init__(name="recurrent_layer")
        self.output_size = hidden_size * (2 if bidirectional else 1)

        def direction() -> Direction:
            return Direction(input_size, hidden_size, cell_type, initializer, regularizer, use_cudnn, gate_bias)

        self.forward, self.backward = direction(), direction() if bidirectional else None

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns the outputs ``[time, batch, output_size]``, which are zeros after each example's end.

        Args:
          x: ``[time, batch, input]`` in the compute dtype.
          lengths: ``[batch]`` int32, in steps.
        """
        outputs = [self.forward.outputs(x, lengths)]
        if self.backward is not None:
            order = reversing_order(lengths, tf.shape(x)[0])
            outputs.append(permute_steps(self.backward.outputs(permute_steps(x, order), lengths), order))
        held = tf.range(tf.shape(x)[0])[:, tf.newaxis] < lengths
        return tf.where(held[:, :, tf.newaxis], tf.concat(outputs, -1), tf.zeros([], x.dtype))


class RecurrentStack(Module):
    """A stack of recurrent layers.

    The input of each layer is the output of the previous one: in a bidirectional stack, the concatenated outputs of
    both directions.

    Args:
      input_size: number of input channels.
      hidden_size: number of units per direction and layer.
      num_layers: number of layers; may be 0.
      cell_type: see ``Direction``.
      bidirectional: whether all layers are bidirectional.
      dropout_rate: dropout rate after each layer.
      drop_last: whether to apply dropout also to the last layer's output; cuDNN applies it only between layers.
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
