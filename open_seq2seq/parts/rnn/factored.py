"""LSTMs whose matrices have fewer parameters: block-diagonal matrices, or products of two narrow matrices.

See Kuchaiev and Ginsburg 2017, https://arxiv.org/abs/1703.10722. The full matrices are computed once for each forward
pass, and everything else is the same as for other LSTMs. There are fewer parameters, but no fewer multiplications.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.layers import Direction
from open_seq2seq.utils.errors import ConfigError


def block_diagonal(blocks: tf.Tensor, gates: int) -> tf.Tensor:
    """Returns a matrix in which group i of each gate's outputs depends only on group i of the inputs.

    Args:
      blocks: ``[groups, rows, gates · columns]``.
      gates: number of gates.

    Returns:
      ``[groups · rows, gates · groups · columns]``, gate by gate.
    """
    groups, rows, width = blocks.shape
    columns = width // gates
    by_gate = tf.reshape(blocks, [groups, rows, gates, 1, columns])
    placed = by_gate * tf.reshape(tf.eye(groups, dtype=blocks.dtype), [groups, 1, 1, groups, 1])
    return tf.reshape(placed, [groups * rows, gates * groups * columns])


class GroupedDirection(Direction):
    """An LSTM whose inputs, states and gates are divided into groups.

    Groups are independent of one another, except that a projection of the output, if any, combines them.

    Args:
      input_size: number of input channels, a multiple of ``groups``.
      hidden_size: number of units, a multiple of ``groups``.
      groups: number of groups.
      kwargs: see ``Direction``.

    Raises:
      ConfigError: ``input_size`` is not a multiple of ``groups``.
    """

    def __init__(self, input_size: int, hidden_size: int, groups: int, **kwargs: Any) -> None:
        if input_size % groups:
            raise ConfigError([f"'core_cell_params/number_of_groups' is {groups}, but this does not divide the "
                               f"{input_size} channels of a layer's input: change the number of groups, or the size "
                               "of the input."])
        self._groups = groups
        super().__init__(input_size, hidden_size, **kwargs)

    def _make_matrices(self, input_size: int, initializer: Any, regularizer: Any) -> None:
        groups, columns = self._groups, self.columns // self._groups
        self.kernel = self.weight([groups, input_size // groups, columns], initializer, regularizer=regularizer)
        self.recurrent_kernel = self.weight([groups, self.output_size // groups, columns], initializer,
                                            regularizer=regularizer)
        if self.cell.name == "projected_lstm":
            self.projection = self.weight([self.hidden_size, self.output_size], initializer, regularizer=regularizer)

    def input_kernel(self, dtype: tf.DType, training: bool = False) -> tf.Tensor:
        return block_diagonal(cast_weight(self.kernel, dtype), self.cell.gates)

    def step_weights(self, dtype: tf.DType, training: bool = False) -> list[tf.Tensor]:
        recurrent, *others = super().step_weights(dtype, training)
        return [block_diagonal(recurrent, self.cell.gates), *others]


class FactoredDirection(Direction):
    """An LSTM whose input matrix and recurrent matrix are each the product of two factors.

    The first factor, ``[rows, rank]``, is different for the two matrices; they share the second, ``[rank, columns]``.

    Args:
      input_size: number of input channels.
      hidden_size: number of units.
      rank: number of channels between the two factors.
      kwargs: see ``Direction``.
    """

    def __init__(self, input_size: int, hidden_size: int, rank: int, **kwargs: Any) -> None:
        self._rank = rank
        super().__init__(input_size, hidden_size, **kwargs)

    def _make_matrices(self, input_size: int, initializer: Any, regularizer: Any) -> None:
        def matrix(rows: int, columns: int) -> tf.Variable:
            return self.weight([rows, columns], initializer, regularizer=regularizer)

        self.kernel, self.recurrent_kernel = matrix(input_size, self._rank), matrix(self.output_size, self._rank)
        self.expansion = matrix(self._rank, self.columns)
        if self.cell.name == "projected_lstm":
            self.projection = matrix(self.hidden_size, self.output_size)

    def input_kernel(self, dtype: tf.DType, training: bool = False) -> tf.Tensor:
        return tf.matmul(cast_weight(self.kernel, dtype), cast_weight(self.expansion, dtype))

    def step_weights(self, dtype: tf.DType, training: bool = False) -> list[tf.Tensor]:
        recurrent, *others = super().step_weights(dtype, training)
        return [tf.matmul(recurrent, cast_weight(self.expansion, dtype)), *others]
