"""The loop of a recurrent layer over time, with a custom gradient.

The loop contains only the recurrent product and the gates. The input is projected for all steps at once, and the
gradient of each weight matrix is one product over all steps. TensorFlow's gradient of ``tf.while_loop`` would keep more
in memory than the states and the tensors that the cell saves, and would accumulate the gradients of matrices step by
step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.portable import portable_scan
from open_seq2seq.parts.rnn.cells import Cell, Tensors, transposed

STEPS_AT_ONCE = 4  # number of steps per loop iteration; more than one, to reduce the loop's overhead


def recurrence(cell: Cell, x: tf.Tensor, states: Sequence[tf.Tensor], weights: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Runs a cell over time.

    Args:
      cell: the cell type.
      x: the projected input, ``[time, batch, columns]`` in the compute dtype.
      states: the initial states, ``[batch, size]`` FP32 each, the output first.
      weights: the cell's weights; matrices in the compute dtype, the others in FP32.

    Returns:
      For each state, its values after every step, ``[time, batch, size]``; the output is in the compute dtype, an inner
      state in FP32. Steps after the end of an example are computed from its padding; the caller masks their values.
    """
    if current_pass().portable:
        return portable_scan(lambda values, one: cell.step(one[0], values, tuple(weights))[0], [x], states,
                             _kept_types(cell, x))
    num_states = cell.num_states

    @tf.custom_gradient
    def run(x: tf.Tensor, *others: tf.Tensor) -> Any:
        first, used = others[:num_states], others[num_states:]
        histories, saved = _forward(cell, x, first, used)

        def grad(*dy: tf.Tensor) -> list[tf.Tensor]:
            return _backward(cell, x, first, used, histories, saved, dy)

        return [history[1:] for history in histories], grad

    return list(run(x, *states, *weights))


def turns(steps: tf.Tensor, body: Callable[[tf.Tensor, Any], Any], carried: Any) -> Any:
    """Runs ``body`` for each step, and returns the final carried values.

    Each loop iteration runs ``STEPS_AT_ONCE`` steps; the remaining steps are run one by one.

    Args:
      steps: number of steps.
      body: function from (index of the step, values carried from step to step) to the new carried values.
      carried: initial carried values.
    """
    for at_once in (STEPS_AT_ONCE, 1):
        def turn(step: tf.Tensor, carried: Any, at_once: int = at_once) -> tuple[tf.Tensor, Any]:
            for offset in range(at_once):
                carried = body(step + offset, carried)
            return step + at_once, carried

        start = 0 if at_once == STEPS_AT_ONCE else steps - steps % STEPS_AT_ONCE
        _, carried = tf.while_loop(
            lambda step, _, at_once=at_once: step + at_once <= steps, turn, (tf.convert_to_tensor(start), carried))
    return carried


def step_array(dtype: tf.DType, steps: tf.Tensor, like: Sequence[int | None]) -> tf.TensorArray:
    """Returns a ``TensorArray`` that holds one tensor of the shape ``like`` for each of ``steps`` steps."""
    return tf.TensorArray(dtype, steps, element_shape=tf.TensorShape(like), clear_after_read=False)


def as_rows(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a tensor ``[…, columns]`` as a matrix ``[rows, columns]``."""
    return tf.reshape(tensor, [-1, tensor.shape[-1]])


def _forward(cell: Cell, x: tf.Tensor, states: Tensors, weights: Tensors) -> tuple[list[tf.Tensor], Tensors]:
    """Runs the loop over time.

    Returns:
      (for each state, its values before the first step and after each step, ``[time + 1, batch, size]``; the tensors
      that the cell saves, ``[time, batch, …]``).
    """
    steps, dtypes, rows = tf.shape(x)[0], _kept_types(cell, x), states[0].shape[0]
    histories = tuple(step_array(dtype, steps + 1, state.shape).write(0, tf.cast(state, dtype))
                      for state, dtype in zip(states, dtypes, strict=True))
    saved = tuple(step_array(tf.float32 if wide else x.dtype, steps, [rows, columns])
                  for columns, wide in cell.saved_sizes([state.shape[-1] for state in states]))

    def body(step: tf.Tensor, carried: Any) -> Any:
        states, histories, saved = carried
        new, keep = cell.step(x[step], states, weights)
        histories = tuple(array.write(step + 1, tf.cast(state, dtype))
                          for array, state, dtype in zip(histories, new, dtypes, strict=True))
        return new, histories, tuple(array.write(step, value) for array, value in zip(saved, keep, strict=True))

    _, histories, saved = turns(steps, body, (tuple(states), histories, saved))
    return [array.stack() for array in histories], tuple(array.stack() for array in saved)


def _kept_types(cell: Cell, x: tf.Tensor) -> list[tf.DType]:
    return [x.dtype, tf.float32][:cell.num_states]


def _backward(cell: Cell, x: tf.Tensor, first: Tensors, weights: Tensors, histories: Sequence[tf.Tensor],
              saved: Tensors, dy: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the gradients of ``x``, of each initial state and of each weight; ``dy`` are those of the results."""
    steps, rows = tf.shape(x)[0], (x.shape[1], first[0].shape[-1])
    arrays = (step_array(x.dtype, steps, x.shape[1:]),
              *(step_array(x.dtype, steps, rows) for _ in range(cell.num_rows)))
    sums = tuple(tf.zeros_like(weight) for weight in weights[len(weights) - cell.num_sums:])
    d_states = tuple(tf.zeros_like(state) for state in first)
    turned = transposed(weights)

    def body(turn: tf.Tensor, carried: Any) -> Any:
        d_states, arrays, sums = carried
        step = steps - 1 - turn
        d_states = tuple(d + tf.cast(d_output[step], tf.float32) for d, d_output in zip(d_states, dy, strict=True))
        gradients = cell.step_gradient(d_states, tuple(tensor[step] for tensor in saved),
                                       tuple(history[step] for history in histories),
                                       tuple(history[step + 1] for history in histories), turned)
        arrays = tuple(array.write(step, tf.cast(value, x.dtype))
                       for array, value in zip(arrays, (gradients.x, *gradients.rows), strict=True))
        return gradients.states, arrays, tuple(a + b for a, b in zip(sums, gradients.sums, strict=True))

    d_states, arrays, sums = turns(steps, body, (d_states, arrays, sums))
    dx, *row_gradients = (array.stack() for array in arrays)

    by_weight = cell.weight_gradients(as_rows(histories[0][:-1]), as_rows(dx), tuple(map(as_rows, row_gradients)),
                                      tuple(map(as_rows, saved)))
    return [dx, *d_states, *by_weight, *sums]
