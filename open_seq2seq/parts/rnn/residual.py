"""Unidirectional recurrent layers with residual connections and dropout, as translation models use them."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.rnn.layers import Direction, final_states


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
