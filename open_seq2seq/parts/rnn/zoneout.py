"""Zoneout: random elements of the states keep their values from the previous step."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from open_seq2seq.parts.dropout import keep_mask
from open_seq2seq.parts.rnn.cells import Cell, StepGradient, Tensors


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
