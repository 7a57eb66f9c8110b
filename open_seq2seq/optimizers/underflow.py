"""The share of a gradient that underflows in half precision.

In half-precision arithmetic, a zero in a gradient is either lost by underflow, or exactly zero. Exact zeros come in
whole rows and columns: rows of tokens that were not looked up, columns of inactive units. So for a gradient as a
matrix, whose columns are its last axis,

    lost = live rows · live columns − nonzero values,   of live rows · live columns,

where a row or column is live if any of its values is not 0. A gradient of zeros only counts as lost. In a vector single
zeros do not count, because they may belong to inactive units. The share is a lower bound: a unit whose gradients are
all lost looks inactive.

In float32, the values that are not 0 and would be 0 after conversion, at the loss scale of the step, are lost.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from open_seq2seq.optimizers.clipping import Gradient, Gradients
from open_seq2seq.optimizers.half_types import HalfType
from open_seq2seq.optimizers.layer_groups import group_names


def count_lost(gradient: Gradient) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts the numbers of a gradient that came out of half-precision arithmetic as zeros.

    Args:
      gradient: any shape, dense or ``IndexedSlices``, scaled or not.

    Returns:
      (how many were lost, of how many), float64 scalars.
    """
    present = _as_matrix(gradient) != 0.0  # holds for inf and NaN
    by_row = tf.reduce_sum(tf.cast(present, tf.float32), 1)
    kept = tf.reduce_sum(tf.cast(by_row, tf.float64))
    live = _count(by_row > 0.0) * _count(tf.reduce_any(present, 0))
    judged = tf.where(kept > 0.0, live, tf.cast(tf.size(present), tf.float64))
    return judged - kept, judged


def count_losable(gradient: Gradient, half: HalfType) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts the numbers of an FP32 gradient that a half-precision type would make zeros.

    Args:
      gradient: any shape, dense or ``IndexedSlices``, multiplied by the loss scale.
      half: the type.

    Returns:
      (how many would be lost, of how many that are not 0), float64 scalars.
    """
    magnitudes = tf.abs(_as_matrix(gradient))
    return _count(half.lost(magnitudes)), _count(magnitudes != 0.0)


def underflow_shares(gradients: Gradients, names: Iterable[str], half: HalfType | None = None) -> tf.Tensor:
    """Returns the share of lost numbers of each layer group, and of all together.

    Args:
      gradients: by variable name, multiplied by the loss scale.
      names: all trainable variables; a group without gradients has share 0.
      half: the type that FP32 gradients are judged for; None for gradients that half
        precision computed.

    Returns:
      FP32 ``[groups + 1]`` in the order of ``group_names(names)``; the last one is of all.
    """
    lost, judged = [], []
    for members in group_names(names).values():
        present = [gradients[name] for name in members if name in gradients]
        counts = [count_lost(g) if half is None else count_losable(g, half) for g in present]
        lost.append(_sum(count[0] for count in counts))
        judged.append(_sum(count[1] for count in counts))
    shares = tf.math.divide_no_nan(tf.stack([*lost, _sum(lost)]), tf.stack([*judged, _sum(judged)]))
    return tf.cast(shares, tf.float32)


class UnderflowMeter:
    """Measures the underflow of every n-th step's gradients; other steps pay for one comparison.

    Args:
      names: all trainable variables.
      every: n.
      half: see ``underflow_shares``.

    Attributes:
      groups: what the shares belong to; ``all`` comes last.
      half: as given.
    """

    def __init__(self, names: Iterable[str], every: int, half: HalfType | None = None) -> None:
        self._names = list(names)
        self._every = every
        self.half = half
        self.groups = (*group_names(self._names), "all")

    def __call__(self, gradients: Gradients, step: tf.Tensor) -> tf.Tensor:
        """Returns the shares, FP32 ``[groups]``; zeros at steps that are not measured.

        Args:
          gradients: by variable name, multiplied by the loss scale.
          step: int64 scalar, the number of this step from 1.
        """
        return tf.cond(tf.equal(step % self._every, 0),
                       lambda: underflow_shares(gradients, self._names, self.half),
                       lambda: tf.zeros([len(self.groups)]))


def _as_matrix(gradient: Gradient) -> tf.Tensor:
    dense = tf.convert_to_tensor(gradient)
    return tf.reshape(dense, [-1, dense.shape[-1]] if dense.shape.rank > 1 else [-1, 1])


def _count(where: tf.Tensor) -> tf.Tensor:
    """Counts exactly, without an int64 copy of all: row by row in FP32, then in float64."""
    rows = tf.cast(where, tf.float32)
    if rows.shape.rank > 1:
        rows = tf.reduce_sum(rows, 1)
    return tf.reduce_sum(tf.cast(rows, tf.float64))


def _sum(counts: Iterable[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tf.constant(0.0, tf.float64), *counts])
