"""Unidirectional recurrent layers with residual connections and dropout, as translation models use them."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dropout import dropout
from open_seq2seq.parts.rnn.layers import Direction


class ResidualLayer(Module):
    """A recurrent layer with dropout before and after it and optionally a residual connection.

    The residual connection adds the input, after its dropout, to the cell's output.

    Args:
      direction: the cell with its weights.
      residual: whether to add the input to the output.
      drop_input: dropout rate of the input.
      drop_output: dropout rate of the sum.
    """

    def __init__(self, direction: Direction, residual: bool, drop_input: float = 0.0,
                 drop_output: float = 0.0) -> None:
        super().__init__(name="residual_layer")
        self.direction, self.residual = direction, residual
        self.drop_input, self.drop_output = drop_input, drop_output
        self.output_size = direction.hidden_size

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False,
                 context: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the outputs ``[time, batch, hidden]`` in the dtype of ``x``.

        Args:
          x: ``[time, batch, input]`` in the compute dtype.
          lengths: ``[batch]`` int32, in steps; outputs after an example's end are arbitrary.
          training: whether to apply dropout.
          context: ``[time, batch, channels]``, further input of the cell, to which the residual connection does not
            apply.
        """
        size = x.shape[-1]
        joined = dropout(x if context is None else tf.concat([x, context], -1), self.drop_input, training)
        y = self.direction.outputs(joined, lengths, training)
        if self.residual:
            y += joined[..., :size]
        return dropout(y, self.drop_output, training)


def run_layers(layers: Sequence[ResidualLayer], x: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
    """Applies the layers one after another to ``[time, batch, input]``; see ``ResidualLayer``."""
    for layer in layers:
        x = layer(x, lengths, training)
    return x
