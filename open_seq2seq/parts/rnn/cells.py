"""Recurrent cells, zoneout around them, and the table of all cells: one step and its gradient.

A cell receives the input after its product with the input matrix, including the bias (the projected input ``x``). It
multiplies its state by the recurrent weights, and computes everything else in FP32. Each step saves the values that its
gradient needs (``saved``). Therefore the backward pass needs no more matrix products per step than the forward pass.
The gradient of each weight matrix is one product over all steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from open_seq2seq.parts.dense import sum_over_rows
from open_seq2seq.parts.dropout import keep_mask

Tensors = tuple[tf.Tensor, ...]


class StepGradient(NamedTuple):
    """Gradients of one step.

    Attributes:
      x: gradient of the projected input, ``[batch, columns]`` FP32.
      states: gradients of the states before the step, ``[batch, size]`` FP32 each.
      rows: further values ``[batch, …]`` from which the gradients of the weights are computed.
      sums: gradients of the last ``num_sums`` weights, which are vectors, summed over the batch.
    """

    x: tf.Tensor
    states: Tensors
    rows: Tensors = ()
    sums: Tensors = ()


class Cell(Protocol):
    """Protocol of a cell type, which has no variables.

    Attributes:
      name: name of the cell type in configs.
      gates: number of gates; the projected input has ``gates · hidden`` columns.
      num_states: 1, or 2 if there is an inner state besides the output.
      num_rows: number of ``rows`` in ``StepGradient``, each with as many columns as the output.
      num_sums: number of ``sums`` in ``StepGradient``, which are the gradients of the last ``num_sums`` weights.
    """

    name: str
    gates: int
    num_states: int
    num_rows: int
    num_sums: int

    def saved_sizes(self, sizes: Sequence[int]) -> list[tuple[int, bool]]:
        """Returns (columns, whether it is FP32 instead of the compute dtype) for each tensor that ``step`` saves.

        Args:
          sizes: number of columns of each state.
        """

    def step(self, x: tf.Tensor, states: Tensors, weights: Sequence[tf.Tensor]) -> tuple[Tensors, Tensors]:
        """Computes one step.

        Args:
          x: projected input ``[batch, gates · hidden]`` in the compute dtype, followed by masks if the cell needs them.
          states: the states, ``[batch, size]`` FP32 each, the output first.
          weights: the weights, the recurrent matrix first; matrices are in the compute dtype.

        Returns:
          (new states, tensors ``[batch, …]`` to save).
        """

    def step_gradient(self, d_states: Tensors, saved: Tensors, before: Tensors, after: Tensors,
                      weights: Sequence[tf.Tensor]) -> StepGradient:
        """Returns the gradients of a step.

        Args:
          d_states: gradients of the new states, FP32.
          saved: the tensors saved by ``step``.
          before: the states before the step: the output in the compute dtype, an inner state in FP32.
          after: the states after the step; the output is in the compute dtype or FP32, an inner state in FP32.
          weights: as in ``step``, but matrices are transposed; see ``transposed``.
        """

    def weight_gradients(self, outputs_before: tf.Tensor, dx: tf.Tensor, rows: Tensors, saved: Tensors) -> Tensors:
        """Returns the gradients, over all steps, of the weights that ``sums`` do not cover.

        Args:
          outputs_before: the outputs before each step, ``[steps · batch, size]`` in the compute dtype.
          dx: gradients of the projected input, ``[steps · batch, columns]`` in the compute dtype.
          rows: the ``rows`` of all steps, ``[steps · batch, …]`` each.
          saved: the saved tensors of all steps, ``[steps · batch, …]`` each.
        """


def product(states: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """Returns ``states · matrix``, computed in the dtype of the matrix and cast to FP32.

    Args:
      states: ``[batch, rows]``.
      matrix: ``[rows, columns]``.

    Returns:
      ``[batch, columns]`` FP32.
    """
    return tf.cast(tf.matmul(tf.cast(states, matrix.dtype), matrix), tf.float32)


def transposed(weights: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
    """Transposes the matrices among a cell's weights, for ``Cell.step_gradient``.

    The backward loop transposes each matrix once, because TensorFlow's product of few rows with a transposed matrix
    (``transpose_b``) takes up to twice as long on a CPU.
    """
    return tuple(tf.transpose(weight) if weight.shape.rank == 2 else weight for weight in weights)


def all_steps(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Returns ``leftᵀ · right``, the gradient of a matrix over all steps.

    The sum over the rows is accumulated in FP32 even in half precision.

    Args:
      left: ``[steps · batch, rows]``.
      right: ``[steps · batch, columns]``.

    Returns:
      ``[rows, columns]`` in the dtype of ``left``.
    """
    return tf.matmul(left, tf.cast(right, left.dtype), transpose_a=True)


def through_sigmoid(y: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
    """Returns the gradient of a sigmoid's argument, dy · y · (1 - y), in one pass over its value ``y``."""
    return tf.raw_ops.SigmoidGrad(y=y, dy=dy)


def through_tanh(y: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
    """Returns the gradient of a tanh's argument, dy · (1 - y²), in one pass over its value ``y``."""
    return tf.raw_ops.TanhGrad(y=y, dy=dy)


def lstm_step(z: tf.Tensor, inner: tf.Tensor, factors: tf.Tensor | None = None) -> Tensors:
    """Computes an LSTM's step c' = f · c + i · g, y = o · tanh(c').

    Args:
      z: sums inside the gates, ``[batch, 4 · hidden]`` FP32.
      inner: inner state c before the step, ``[batch, hidden]`` FP32.
      factors: factors that multiply g, ``[batch, hidden]`` FP32, or None.

    Returns:
      (y ``[batch, hidden]``; c' ``[batch, hidden]``; the gates i, f and o ``[batch, 3 · hidden]``; the candidate g
      ``[batch, hidden]``), FP32.
    """
    hidden = inner.shape[-1]
    gates, candidate = tf.sigmoid(z[:, :3 * hidden]), tf.tanh(z[:, 3 * hidden:])
    i, f, o = tf.split(gates, 3, axis=-1)
    added = i * candidate if factors is None else i * candidate * factors
    inner = f * inner + added
    return o * tf.tanh(inner), inner, gates, candidate


def lstm_gradient(dy: tf.Tensor, d_inner: tf.Tensor, saved: Tensors, before: tf.Tensor, after: tf.Tensor,
                  factors: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the gradients of an LSTM's step c' = f · c + i · g, y = o · tanh(c').

    With d = dc' + dy · o · (1 - tanh²(c')), the gradient of the inner state c is f · d.

    Args:
      dy: gradient of y, ``[batch, hidden]`` FP32.
      d_inner: gradient dc' of the new inner state, ``[batch, hidden]`` FP32.
      saved: saved tensors, of which the first two are (i, f, o) ``[batch, 3 · hidden]`` and the candidate g
        ``[batch, hidden]``.
      before: inner state c before the step, ``[batch, hidden]`` FP32.
      after: inner state c' after the step, ``[batch, hidden]`` FP32.
      factors: factors that multiply g, ``[batch, hidden]`` FP32, or None.

    Returns:
      (gradient of the sums inside the gates ``[batch, 4 · hidden]``, gradient of c ``[batch, hidden]``), FP32.
    """
    gates, candidate = tf.cast(saved[0], tf.float32), tf.cast(saved[1], tf.float32)
    i, f, o = tf.split(gates, 3, axis=-1)
    squashed = tf.tanh(after)
    d_inner = d_inner + through_tanh(squashed, dy * o)
    scaled = d_inner if factors is None else d_inner * factors
    dx = [through_sigmoid(i, scaled * candidate), through_sigmoid(f, d_inner * before),
          through_sigmoid(o, dy * squashed), through_tanh(candidate, scaled * i)]
    return tf.concat(dx, -1), d_inner * f


class UnitsCell(Cell):
    """Base of cells whose saved tensors have multiples of ``hidden`` columns.

    Attributes:
      saved: for each saved tensor, (columns / ``hidden``, whether it is FP32 instead of the compute dtype).
    """

    saved: Sequence[tuple[int, bool]] = ()

    def saved_sizes(self, sizes: Sequence[int]) -> list[tuple[int, bool]]:
        """Returns the sizes of the saved tensors; see ``Cell``."""
        return [(columns * sizes[-1], wide) for columns, wide in self.saved]

    def factors(self, saved: Tensors) -> tf.Tensor | None:
        """Returns what multiplied the candidate of an LSTM, ``[batch, hidden]`` FP32; by default nothing."""
        return None


class Lstm(UnitsCell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997, https://doi.org/10.1162/neco.1997.9.8.1735).

    The forget gate is from Gers et al. 2000, https://doi.org/10.1162/089976600300015015. The gates are input (i),
    forget (f), output (o) and candidate (g). The only weight is the recurrent matrix ``[hidden, 4 · hidden]``.
    """

    name, gates, num_states, num_rows, num_sums = "lstm", 4, 2, 0, 0
    saved: Sequence[tuple[int, bool]] = ((3, False), (1, False))

    def step(self, x: tf.Tensor, states: Tensors, weights: Sequence[tf.Tensor]) -> tuple[Tensors, Tensors]:
        """Computes c' = f · c + i · g and h' = o · tanh(c'); saves (i, f, o) and g. See ``Cell``."""
        output, inner, *saved = lstm_step(tf.cast(x, tf.float32) + product(states[0], weights[0]), states[1])
        return (output, inner), tuple(tf.cast(one, weights[0].dtype) for one in saved)

    def step_gradient(self, d_states: Tensors, saved: Tensors, before: Tensors, after: Tensors,
                      weights: Sequence[tf.Tensor]) -> StepGradient:
        dx, d_inner = lstm_gradient(d_states[0], d_states[1], saved, before[1], after[1], self.factors(saved))
        return StepGradient(dx, (product(dx, weights[0]), d_inner))

    def weight_gradients(self, outputs_before: tf.Tensor, dx: tf.Tensor, rows: Tensors, saved: Tensors) -> Tensors:
        return (all_steps(outputs_before, dx),)


class Gru(UnitsCell):
    """Gated recurrent unit whose reset gate is applied after the matrix product, as in cuDNN.

    See Cho et al. 2014, https://arxiv.org/abs/1406.1078, version 1. The gates are update (z), reset (r) and candidate
    (n). The weights are the recurrent matrix ``[hidden, 3 · hidden]``, whose last third is U, and the candidate's
    recurrent bias b ``[hidden]`` FP32.
    """

    name, gates, num_states, num_rows, num_sums = "gru", 3, 1, 1, 0
    saved = ((2, False), (1, False), (1, False))

    def step(self, x: tf.Tensor, states: Tensors, weights: Sequence[tf.Tensor]) -> tuple[Tensors, Tensors]:
        """Computes h' = z · h + (1 - z) · n with n = tanh(x + r · (h · U + b)). See ``Cell``.

        Saves (z, r), n, and h · U + b.
        """
        hidden = weights[0].shape[0]
        x, u = tf.cast(x, tf.float32), product(states[0], weights[0])
        gates = tf.sigmoid(x[:, :2 * hidden] + u[:, :2 * hidden])
        update, reset = tf.split(gates, 2, axis=-1)
        inner = u[:, 2 * hidden:] + weights[1]
        candidate = tf.tanh(x[:, 2 * hidden:] + reset * inner)
        dtype = weights[0].dtype
        return ((candidate + update * (states[0] - candidate),),
                (tf.cast(gates, dtype), tf.cast(candidate, dtype), tf.cast(inner, dtype)))

    def step_gradient(self, d_states: Tensors, saved: Tensors, before: Tensors, after: Tensors,
                      weights: Sequence[tf.Tensor]) -> StepGradient:
        """Returns the gradients; see ``Cell``.

        The gradient of the argument of the tanh is d = dh' · (1 - z) · (1 - n²). ``rows`` contains the gradient of
        h · U + b, which is r · d.
        """
        gates, candidate, inner = (tf.cast(tensor, tf.float32) for tensor in saved)
        update, reset = tf.split(gates, 2, axis=-1)
        dh = d_states[0]
        d_candidate = through_tanh(candidate, dh * (1.0 - update))
        d_update = dh * (tf.cast(before[0], tf.float32) - candidate)
        d_gates = through_sigmoid(gates, tf.concat([d_update, d_candidate * inner], -1))
        d_inner = d_candidate * reset
        by_product = product(tf.concat([d_gates, d_inner], -1), weights[0])
        return StepGradient(tf.concat([d_gates, d_candidate], -1), (dh * update + by_product,), (d_inner,))

    def weight_gradients(self, outputs_before: tf.Tensor, dx: tf.Tensor, rows: Tensors, saved: Tensors) -> Tensors:
        hidden = outputs_before.shape[-1]
        du = tf.concat([dx[:, :2 * hidden], tf.cast(rows[0], dx.dtype)], -1)
        return all_steps(outputs_before, du), sum_over_rows(rows[0])


class ClassicGru(UnitsCell):
    """Gated recurrent unit whose reset gate is applied to the state before the matrix product.

    See Cho et al. 2014, https://arxiv.org/abs/1406.1078, version 3; this is TensorFlow 1's ``GRUCell``. Each step has
    two matrix products, and cuDNN does not support the cell. The gates are update (z), reset (r) and candidate (n). The
    weights are two recurrent matrices: that of update and reset gate ``[hidden, 2 · hidden]``, and that of the
    candidate, U ``[hidden, hidden]``.
    """

    name, gates, num_states, num_rows, num_sums = "classic_gru", 3, 1, 0, 0
    saved = ((2, False), (1, False))

    def step(self, x: tf.Tensor, states: Tensors, weights: Sequence[tf.Tensor]) -> tuple[Tensors, Tensors]:
        """Computes h' = z · h + (1 - z) · n with n = tanh(x + (r · h) · U); saves (z, r) and n. See ``Cell``."""
        hidden = weights[0].shape[0]
        x = tf.cast(x, tf.float32)
        gates = tf.sigmoid(x[:, :2 * hidden] + product(states[0], weights[0]))
        update, reset = tf.split(gates, 2, axis=-1)
        candidate = tf.tanh(x[:, 2 * hidden:] + product(reset * states[0], weights[1]))
        dtype = weights[0].dtype
        return ((candidate + update * (states[0] - candidate),), (tf.cast(gates, dtype), tf.cast(candidate, dtype)))

    def step_gradient(self, d_states: Tensors, saved: Tensors, before: Tensors, after: Tensors,
                      weights: Sequence[tf.Tensor]) -> StepGradient:
        """Returns the gradients; see ``Cell``.

        The gradient of the argument of the tanh is d = dh' · (1 - z) · (1 - n²), and the gradient of r · h is d · Uᵀ.
        """
        gates, candidate = (tf.cast(tensor, tf.float32) for tensor in saved)
        update, reset = tf.split(gates, 2, axis=-1)
        dh, h = d_states[0], tf.cast(before[0], tf.float32)
        d_candidate = through_tanh(candidate, dh * (1.0 - update))
        d_reset_state = product(d_candidate, weights[1])
        d_gates = through_sigmoid(gates, tf.concat([dh * (h - candidate), d_reset_state * h], -1))
        d_state = dh * update + d_reset_state * reset + product(d_gates, weights[0])
        return StepGradient(tf.concat([d_gates, d_candidate], -1), (d_state,))

    def weight_gradients(self, outputs_before: tf.Tensor, dx: tf.Tensor, rows: Tensors, saved: Tensors) -> Tensors:
        hidden = outputs_before.shape[-1]
        reset = saved[0][:, hidden:]
        return (all_steps(outputs_before, dx[:, :2 * hidden]),
                all_steps(outputs_before * reset, dx[:, 2 * hidden:]))


class LayerNormLstm(UnitsCell):
    """LSTM with layer normalisation of the sums inside each gate and of the inner state.

    See Ba et al. 2016, https://arxiv.org/abs/1607.06450, section 3.1. As in TensorFlow 1's ``LayerNormBasicLSTMCell``,
    there are no biases before normalisation, and the next step receives the normalised inner state. The gates are
    input, forget, output and candidate. The weights are the recurrent matrix ``[hidden, 4 · hidden]``, the scales of
    the four gates and the inner state ``[5 · hidden]`` FP32, and their offsets ``[5 · hidden]`` FP32.
    """

    name, gates, num_states, num_rows, num_sums = "layernorm_lstm", 4, 2, 0, 2
    saved: Sequence[tuple[int, bool]] = ((4, True),)
    epsilon = 1e-6

    def step(self, x: tf.Tensor, states: Tensors, weights: Sequence[tf.Tensor]) -> tuple[Tensors, Tensors]:
        z = tf.cast(x, tf.float32) + product(states[0], weights[0])
        return self._from_sums(z, states[1], weights[1], weights[2]), (z,)

    def _from_sums(self, z: tf.Tensor, inner: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor,
                   factors: tf.Tensor | None = None) -> Tensors:
        """Returns the new states for the sums ``z`` inside the gates, ``[batch, 4 · hidden]`` FP32.

        If ``factors`` ``[batch, hidden]`` are given, they multiply the candidate.
        """
        hidden = inner.shape[-1]
        normed = [_normalised(part, self.epsilon) for part in tf.split(z, 4, axis=-1)]
        z = tf.concat(normed, -1) * scale[:4 * hidden] + offset[:4 * hidden]
        i, f, o = tf.split(tf.sigmoid(z[:, :3 * hidden]), 3, axis=-1)
        candidate = tf.tanh(z[:, 3 * hidden:])
        inner = f * inner + i * (candidate if factors is None else candidate * factors)
        inner = _normalised(inner, self.epsilon) * scale[4 * hidden:] + offset[4 * hidden:]
        return o * tf.tanh(inner), inner

    def step_gradient(self, d_states: Tensors, saved: Tensors, before: Tensors, after: Tensors,
                      weights: Sequence[tf.Tensor]) -> StepGradient:
        sources = (saved[0], before[1], weights[1], weights[2])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            new = self._from_sums(*sources, self.factors(saved))
        dz, d_inner, d_scale, d_offset = tape.gradient(new, sources, list(d_states))
        return StepGradient(dz, (product(dz, weights[0]), d_inner), (), (d_scale, d_offset))

    def weight_gradients(self, outputs_before: tf.Tensor, dx: tf.Tensor, rows: Tensors, saved: Tensors) -> Tensors:
        return (all_steps(outputs_before, dx),)


def _normalised(x: tf.Tensor, epsilon: float) -> tf.Tensor:
    centered = x - tf.reduce_mean(x, -1, keepdims=True)
    return centered * tf.math.rsqrt(tf.reduce_mean(tf.square(centered), -1, keepdims=True) + epsilon)


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
        let_through, inner, *saved = lstm_step(tf.cast(x, tf.float32) + product(states[0], weights[0]), states[1])
        return (product(let_through, weights[1]), inner), tuple(
            tf.cast(one, weights[0].dtype) for one in (*saved, let_through))

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
        output, inner, *saved = lstm_step(tf.cast(x, tf.float32), states[1])
        return (output, inner), tuple(tf.cast(one, x.dtype) for one in saved)

    def step_gradient(self, d_states: Tensors, saved: Tensors, before: Tensors, after: Tensors,
                      weights: Sequence[tf.Tensor]) -> StepGradient:
        dx, d_inner = lstm_gradient(d_states[0], d_states[1], saved, before[1], after[1])
        return StepGradient(dx, (tf.zeros_like(d_states[0]), d_inner))

    def weight_gradients(self, outputs_before: tf.Tensor, dx: tf.Tensor, rows: Tensors, saved: Tensors) -> Tensors:
        return ()


CELLS: dict[str, Any] = {cell.name: cell for cell in (
    Lstm(), Gru(), ClassicGru(), LayerNormLstm(), ProjectedLstm(), InputLstm())}


class Zoneout:
    """Wraps a cell so that elements of its states keep their previous values with some probability (zoneout).

    See Krueger et al. 2017, https://arxiv.org/abs/1606.01305. In training, elements are chosen at random, independently
    of one another. Outside of training, the new state is the mean of the previous state and the state that the cell
    computes, weighted by their probabilities. The output is one of the states.

    In training, the caller appends the result of ``masks`` to the columns of the projected input.

    Args:
      cell: the cell.
      rate: probability with which an element keeps its previous value.
      sizes: number of columns of each state.
      training: whether elements are chosen at random.
    """

    def __init__(self, cell: Cell, rate: float, sizes: Sequence[int], training: bool) -> None:
        self._cell, self._rate, self._sizes, self._training = cell, rate, list(sizes), training
        self.name, self.gates, self.num_states = f"zoneout_{cell.name}", cell.gates, cell.num_states
        self.num_rows, self.num_sums = cell.num_rows, cell.num_sums

    def masks(self, like: tf.Tensor) -> tf.Tensor:
        """Returns random masks ``[time, batch, sum of sizes]`` in the dtype of ``like`` ``[time, batch, …]``.

        The masks are 1 where the previous value is kept.
        """
        width = sum(self._sizes)
        renewed = keep_mask(tf.concat([tf.shape(like)[:2], [width]], 0), self._rate)
        return tf.ensure_shape(tf.where(renewed, tf.zeros([], like.dtype), tf.ones([], like.dtype)),
                               [*like.shape[:2], width])

    def saved_sizes(self, sizes: Sequence[int]) -> list[tuple[int, bool]]:
        """Returns the sizes of the tensors that the cell saves, of its new states, and of the masks; see ``Cell``."""
        masks = [(size, False) for size in sizes] if self._training else []
        return [*self._cell.saved_sizes(sizes), *((size, True) for size in sizes), *masks]

    def step(self, x: tf.Tensor, states: Tensors, weights: Sequence[tf.Tensor]) -> tuple[Tensors, Tensors]:
        columns = x.shape[-1] - (sum(self._sizes) if self._training else 0)
        masks = tuple(tf.split(x[:, columns:], self._sizes, axis=-1)) if self._training else ()
        new, saved = self._cell.step(x[:, :columns], states, weights)
        mixed = tuple(share * before + (1.0 - share) * after
                      for before, after, share in zip(states, new, self._shares(masks), strict=True))
        return mixed, (*saved, *new, *masks)

    def _shares(self, masks: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns, for each state, the weight of the previous value in the new value, FP32.

        This is a mask ``[batch, size]`` in training, and a scalar outside of training.
        """
        if self._training:
            return [tf.cast(mask, tf.float32) for mask in masks]
        return [tf.constant(self._rate) for _ in self._sizes]

    def step_gradient(self, d_states: Tensors, saved: Tensors, before: Tensors, after: Tensors,
                      weights: Sequence[tf.Tensor]) -> StepGradient:
        count = self.num_states
        num_saved = len(self._cell.saved_sizes(self._sizes))
        new, masks = saved[num_saved:num_saved + count], saved[num_saved + count:]
        shares = self._shares(masks)
        d_new = tuple(d * (1.0 - share) for d, share in zip(d_states, shares, strict=True))
        grads = self._cell.step_gradient(d_new, saved[:num_saved], before, new, weights)
        d_before = tuple(inside + d * share for inside, d, share in zip(grads.states, d_states, shares, strict=True))
        dx = tf.pad(grads.x, [[0, 0], [0, sum(self._sizes)]]) if self._training else grads.x
        return StepGradient(dx, d_before, grads.rows, grads.sums)

    def weight_gradients(self, outputs_before: tf.Tensor, dx: tf.Tensor, rows: Tensors, saved: Tensors) -> Tensors:
        columns = dx.shape[-1] - (sum(self._sizes) if self._training else 0)
        num_saved = len(self._cell.saved_sizes(self._sizes))
        return self._cell.weight_gradients(outputs_before, dx[:, :columns], rows, saved[:num_saved])
