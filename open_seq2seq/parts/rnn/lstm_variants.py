"""LSTMs with a projected output or without recurrent weights, and the table of all cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.rnn.cells import (
    ClassicGru,
    Gru,
    LayerNormLstm,
    Lstm,
    StepGradient,
    Tensors,
    UnitsCell,
    all_steps,
    lstm_gradient,
    product,
)


class ProjectedLstm(UnitsCell):
    """LSTM with a linear projection after the output gate (Sak et al. 2014).

    See https://arxiv.org/abs/1402.1128. The gates are input (i), forget (f), output (o) and candidate (g). The weights
    are the recurrent matrix ``[outputs, 4 · hidden]`` and the projection P ``[hidden, outputs]``. The states are the
    output ``[batch, outputs]`` and the inner state ``[batch, hidden]``.
    """

    name, gates, num_states, num_rows, num_sums = "projected_lstm", 4, 2, 1, 0
    saved = ((3, False), (1, False), (1, False))

    def step(self, x: tf.Tensor, states: Tensors, weights: Sequence[tf.Tensor]) -> tuple[Tensors, Tensors]:
        """Computes c' = f · c + i · g and h' = (o · tanh(c')) · P; saves (i, f, o), g, o · tanh(c'). See ``Cell``."""
        z = tf.cast(x, tf.float32) + product(states[0], weights[0])
        gates, candidate, inner = _opened(z, states[1])
        let_through = gates[:, -inner.shape[-1]:] * tf.tanh(inner)
        dtype = weights[0].dtype
        saved = tf.cast(gates, dtype), tf.cast(candidate, dtype), tf.cast(let_through, dtype)
        return (product(let_through, weights[1]), inner), saved

    def step_gradient(self, d_states: Tensors, saved: Tensors, before: Tensors, after: Tensors,
                      weights: Sequence[tf.Tensor]) -> StepGradient:
        """Returns the gradients; ``rows`` contains the gradient of the output. See ``Cell``."""
        dy = product(d_states[0], weights[1])
        dx, d_inner = lstm_gradient(dy, d_states[1], saved, before[1], after[1])
        return StepGradient(dx, (product(dx, weights[0]), d_inner), (d_states[0],))

    def weight_gradients(self, outputs_before: tf.Tensor, dx: tf.Tensor, rows: Tensors, saved: Tensors) -> Tensors:
        return all_steps(outputs_before, dx), all_steps(saved[2], rows[0])


class InputLstm(UnitsCell):
    """LSTM whose gates depend on the input alone, so that a step has no matrix product.

    The gates are input (i), forget (f), output (o) and candidate (g). There are no weights besides those of the input.
    """

    name, gates, num_states, num_rows, num_sums = "input_lstm", 4, 2, 0, 0
    saved = ((3, False), (1, False))

    def step(self, x: tf.Tensor, states: Tensors, weights: Sequence[tf.Tensor]) -> tuple[Tensors, Tensors]:
        """Computes c' = f · c + i · g and h' = o · tanh(c'); saves (i, f, o) and g. See ``Cell``."""
        gates, candidate, inner = _opened(tf.cast(x, tf.float32), states[1])
        output = gates[:, -inner.shape[-1]:] * tf.tanh(inner)
        return (output, inner), (tf.cast(gates, x.dtype), tf.cast(candidate, x.dtype))

    def step_gradient(self, d_states: Tensors, saved: Tensors, before: Tensors, after: Tensors,
                      weights: Sequence[tf.Tensor]) -> StepGradient:
        dx, d_inner = lstm_gradient(d_states[0], d_states[1], saved, before[1], after[1])
        return StepGradient(dx, (tf.zeros_like(d_states[0]), d_inner))

    def weight_gradients(self, outputs_before: tf.Tensor, dx: tf.Tensor, rows: Tensors, saved: Tensors) -> Tensors:
        return ()


def _opened(z: tf.Tensor, inner: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes the gates and the new inner state of an LSTM.

    Args:
      z: sums inside the gates, ``[batch, 4 · hidden]`` FP32.
      inner: inner state before the step, ``[batch, hidden]`` FP32.

    Returns:
      (input, forget and output gate ``[batch, 3 · hidden]``; candidate ``[batch, hidden]``; new inner state
      ``[batch, hidden]``).
    """
    hidden = inner.shape[-1]
    gates, candidate = tf.sigmoid(z[:, :3 * hidden]), tf.tanh(z[:, 3 * hidden:])
    i, f, _ = tf.split(gates, 3, axis=-1)
    return gates, candidate, f * inner + i * candidate


CELLS: dict[str, Any] = {cell.name: cell for cell in (
    Lstm(), Gru(), ClassicGru(), LayerNormLstm(), ProjectedLstm(), InputLstm())}
