"""The share of a gradient that underflows in half precision.

A zero in a gradient that was computed in half precision is either the result of underflow or an exact zero. Exact zeros
come in whole rows and columns: rows of tokens that were not looked up, columns of inactive units. The gradient is
therefore viewed as a matrix with a column for each index of its last axis, and

    lost = live rows · live columns − nonzero values,   out of live rows · live columns,

where a row or column is live if any of its values is nonzero. A gradient of only zeros counts as entirely lost. In a
vector, single zeros do not count as lost, because they may belong to inactive units. Unless all values are zero, the
share is a lower bound, because a unit whose gradients are all lost looks inactive.

In a gradient that was computed in float32, a value counts as lost if it is nonzero but would become 0 when converted to
half precision at the loss scale of the step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import tensorflow as tf

from open_seq2seq.optimizers.clipping import Gradient, Gradients
from open_seq2seq.optimizers.dtype import HalfType

_NUMBERED = re.compile(r"_\d+$")
_DEPTH = 2  # length of the path to a module in a component of the model, such as encoder/embedding


def count_lost(gradient: Gradient) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts the values of a gradient that were lost to underflow in half-precision arithmetic.

    Args:
      gradient: tensor of any shape, dense or ``IndexedSlices``, scaled or not.

    Returns:
      (number of lost values, number of values that could have been lost), float64 scalars.
    """
    present = _as_matrix(gradient) != 0.0  # also True for inf and NaN
    by_row = tf.reduce_sum(tf.cast(present, tf.float32), 1)
    kept = tf.reduce_sum(tf.cast(by_row, tf.float64))
    live = _count(by_row > 0.0) * _count(tf.reduce_any(present, 0))
    judged = tf.where(kept > 0.0, live, tf.cast(tf.size(present), tf.float64))
    return judged - kept, judged


def count_losable(gradient: Gradient, half: HalfType) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts the values of an FP32 gradient that would become 0 in half precision.

    Args:
      gradient: tensor of any shape, dense or ``IndexedSlices``, multiplied by the loss scale.
      half: limits of the half-precision dtype.

    Returns:
      (number of values that would be lost, number of nonzero values), float64 scalars.
    """
    magnitudes = tf.abs(_as_matrix(gradient))
    return _count(half.lost(magnitudes)), _count(magnitudes != 0.0)


def underflow_shares(gradients: Gradients, names: Iterable[str], half: HalfType | None = None) -> tf.Tensor:
    """Returns the share of lost values in each layer group and in all gradients together.

    Args:
      gradients: the gradients by variable name, multiplied by the loss scale.
      names: names of all trainable variables. The share of a group without gradients is 0.
      half: the half-precision dtype to judge FP32 gradients for; None if the gradients were computed in half precision.

    Returns:
      FP32 ``[groups + 1]``: the groups in the order of ``group_names(names)``, then all gradients together.
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
    """Measures underflow in the gradients of every n-th step; other steps cost only a comparison.

    Args:
      names: names of all trainable variables.
      every: the interval n, in steps.
      half: see ``underflow_shares``.

    Attributes:
      groups: the layer groups that the shares belong to, followed by ``all``.
      half: the argument ``half``.
    """

    def __init__(self, names: Iterable[str], every: int, half: HalfType | None = None) -> None:
        self._names = list(names)
        self._every = every
        self.half = half
        self.groups = (*group_names(self._names), "all")

    def __call__(self, gradients: Gradients, step: tf.Tensor) -> tf.Tensor:
        """Returns the shares, FP32 ``[groups]``, or zeros if this step is not measured.

        Args:
          gradients: the gradients by variable name, multiplied by the loss scale.
          step: int64 scalar, the number of this step, counted from 1.
        """
        return tf.cond(tf.equal(step % self._every, 0),
                       lambda: underflow_shares(gradients, self._names, self.half),
                       lambda: tf.zeros([len(self.groups)]))


def _as_matrix(gradient: Gradient) -> tf.Tensor:
    """Returns the gradient as a matrix ``[rows, size of the last axis]``; a vector becomes a single column."""
    dense = tf.convert_to_tensor(gradient)
    return tf.reshape(dense, [-1, dense.shape[-1]] if dense.shape.rank > 1 else [-1, 1])


def _count(where: tf.Tensor) -> tf.Tensor:
    """Returns the exact number of True values, a float64 scalar.

    Each row is summed in FP32, and the sums of the rows in float64, to avoid a copy of the whole tensor in int64.
    """
    rows = tf.cast(where, tf.float32)
    if rows.shape.rank > 1:
        rows = tf.reduce_sum(rows, 1)
    return tf.reduce_sum(tf.cast(rows, tf.float64))


def _sum(counts: Iterable[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tf.constant(0.0, tf.float64), *counts])


def layer_group(name: str) -> str:
    """Returns the layer group of a variable or of a module's output.

    The group is the path up to the first numbered module (``encoder/layer_0`` for
    ``encoder/layer_0/self_attention/query``) or, without a numbered module, the component of the model and the module
    in it (``encoder/embedding`` for ``encoder/embedding/table``). The variable's own name is not part of the group
    (``decoder`` for ``decoder/kernel``), unless it is the whole path.

    Args:
      name: path from the model to the variable or output, as in ``parts.component.named_variables``.
    """
    modules = name.split("/")[:-1]
    if not modules:
        return name
    for depth, module in enumerate(modules, 1):
        if _NUMBERED.search(module):
            return "/".join(modules[:depth])
    return "/".join(modules[:_DEPTH])


def group_names(names: Iterable[str]) -> dict[str, list[str]]:
    """Returns a dict from layer group to the names in it, both in order of first occurrence."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(layer_group(name), []).append(name)
    return groups
