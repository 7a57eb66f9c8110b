"""Weight drop and recurrent dropout for recurrent layers.

Weight drop is dropout of the elements of matrices (Merity et al. 2018, https://arxiv.org/abs/1708.02182). Recurrent
dropout is dropout of the values that an LSTM adds to its inner state (Semeniuta et al. 2016,
https://arxiv.org/abs/1603.05118).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.dropout import dropout, keep_mask, keep_scale
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.cells import (
    Cell,
    LayerNormLstm,
    Lstm,
    StepGradient,
    Tensors,
    UnitsCell,
    all_steps,
    lstm_step,
    product,
)
from open_seq2seq.parts.rnn.layers import Direction


def dropped_weight(variable: tf.Variable, rate: float, dtype: tf.DType, training: bool) -> tf.Tensor:
    """Returns a matrix in ``dtype``, in training with dropout of its elements.

    A layer calls this once per forward pass, so it uses the same mask at all steps.
    """
    if not training or rate == 0.0:
        return cast_weight(variable, dtype)
    return tf.cast(dropout(tf.convert_to_tensor(variable), rate, training), dtype)


class _Dropped(UnitsCell):
    """Mixin of LSTM cells whose candidate, which is added to the inner state, is multiplied by a dropout mask.

    The mask consists of zeros and ones. The caller appends it to the projected input, which then is
    ``[batch, 5 · hidden]``. The cell multiplies the mask by the scale of dropout in FP32.

    Args:
      rate: dropout rate.
    """

    def __init__(self, rate: float) -> None:
        self._scale = keep_scale(rate)

    def _split(self, x: tf.Tensor, weights: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the projected input ``[batch, 4 · hidden]``, and the candidate's factors ``[batch, hidden]`` FP32."""
        columns = 4 * weights[0].shape[0]
        return tf.cast(x[:, :columns], tf.float32), tf.cast(x[:, columns:], tf.float32) * self._scale

    def factors(self, saved: Tensors) -> tf.Tensor:
        return tf.cast(saved[-1], tf.float32) * self._scale

    def step_gradient(self, *arguments: Any) -> StepGradient:
        one = super().step_gradient(*arguments)  # type: ignore[safe-super]
        return one._replace(x=tf.pad(one.x, [[0, 0], [0, one.x.shape[-1] // 4]]))  # masks have no gradient

    def weight_gradients(self, outputs_before: tf.Tensor, dx: tf.Tensor, rows: Tensors, saved: Tensors) -> Tensors:
        return (all_steps(outputs_before, dx[:, :4 * outputs_before.shape[-1]]),)


class DroppedLstm(_Dropped, Lstm):
    """``Lstm`` with recurrent dropout."""

    saved = ((3, False), (1, False), (1, False))

    def step(self, x: tf.Tensor, states: Tensors, weights: Sequence[tf.Tensor]) -> tuple[Tensors, Tensors]:
        """Computes c' = f · c + i · mask · g and h' = o · tanh(c'); saves (i, f, o), g and the mask. See ``Cell``."""
        projected, factors = self._split(x, weights)
        output, inner, *saved = lstm_step(projected + product(states[0], weights[0]), states[1], factors)
        return (output, inner), (*(tf.cast(one, weights[0].dtype) for one in saved), x[:, 4 * weights[0].shape[0]:])


class DroppedLayerNormLstm(_Dropped, LayerNormLstm):
    """``LayerNormLstm`` with recurrent dropout, as in TensorFlow 1's ``LayerNormBasicLSTMCell``."""

    saved = ((4, True), (1, False))

    def step(self, x: tf.Tensor, states: Tensors, weights: Sequence[tf.Tensor]) -> tuple[Tensors, Tensors]:
        projected, factors = self._split(x, weights)
        z = projected + product(states[0], weights[0])
        new = self._from_sums(z, states[1], weights[1], weights[2], factors)
        return new, (z, x[:, 4 * weights[0].shape[0]:])


_DROPPED = {"lstm": DroppedLstm, "layernorm_lstm": DroppedLayerNormLstm}


class WeightDropDirection(Direction):
    """A ``Direction`` of an LSTM with weight drop and recurrent dropout.

    Args:
      input_size: number of input channels.
      hidden_size: number of units.
      cell_type: ``lstm`` or ``layernorm_lstm``; with rates of 0, any type of ``Direction``.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
      gate_bias: see ``Direction``.
      input_weight_rate: dropout rate of the input's matrix.
      recurrent_weight_rate: dropout rate of the recurrent matrix.
      candidate_rate: rate of recurrent dropout, which is applied to the candidate at each step.
    """

    def __init__(self, input_size: int, hidden_size: int, cell_type: str, initializer: Any = None,
                 regularizer: Any = None, gate_bias: float | None = None, input_weight_rate: float = 0.0,
                 recurrent_weight_rate: float = 0.0, candidate_rate: float = 0.0) -> None:
        super().__init__(input_size, hidden_size, cell_type, initializer, regularizer, gate_bias=gate_bias)
        self.input_weight_rate, self.recurrent_weight_rate = input_weight_rate, recurrent_weight_rate
        self.candidate_rate = candidate_rate

    def input_kernel(self, dtype: tf.DType, training: bool = False) -> tf.Tensor:
        """Returns the matrix of the input in ``dtype``, with weight drop in training."""
        return dropped_weight(self.kernel, self.input_weight_rate, dtype, training)

    def step_weights(self, dtype: tf.DType, training: bool = False) -> list[tf.Tensor]:
        """Returns the weights of ``Direction.step_weights``, with weight drop in training."""
        weights = super().step_weights(dtype, training)
        if training and self.recurrent_weight_rate:
            weights[0] = dropped_weight(self.recurrent_kernel, self.recurrent_weight_rate, dtype, training)
        return weights

    def own_cell(self, like: tf.Tensor, training: bool) -> tuple[Cell, tf.Tensor | None]:
        """Returns the cell, with masks of the candidates in training."""
        if not training or not self.candidate_rate:
            return super().own_cell(like, training)
        mask = keep_mask(tf.concat([tf.shape(like)[:2], [self.hidden_size]], 0), self.candidate_rate)
        mask = tf.ensure_shape(mask, [*like.shape[:2], self.hidden_size])
        return _DROPPED[self.cell.name](self.candidate_rate), tf.cast(mask, like.dtype)

    def _uses_cudnn(self, training: bool) -> bool:
        drops = self.input_weight_rate or self.recurrent_weight_rate or self.candidate_rate
        return super()._uses_cudnn(training) and not (training and drops)
