"""Norms of gradients and clipping, in FP32, of both dense gradients and rows of embedding tables."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

Gradient = Any  # tf.Tensor or tf.IndexedSlices
Gradients = dict[str, Any]


class UniqueRows(tf.IndexedSlices):
    """Slices without duplicate rows, made by ``sum_duplicates``."""


def sum_duplicates(slices: tf.IndexedSlices) -> UniqueRows:
    """Adds up the rows of equal index.

    The gradient of an embedding lookup has a row for each lookup, so indices may be repeated. A norm over those rows,
    or an update that writes them one after another, would be wrong.

    Args:
      slices: values ``[rows, …]`` with indices ``[rows]``.

    Returns:
      The same gradient with every index once.
    """
    if isinstance(slices, UniqueRows):
        return slices
    indices, positions = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, positions, tf.size(indices))
    return UniqueRows(values, indices, slices.dense_shape)


def add_gradients(first: Gradient, second: Gradient) -> Gradient:
    """Adds two gradients of one variable: rows if both are rows, each index once, else dense."""
    if not (isinstance(first, tf.IndexedSlices) and isinstance(second, tf.IndexedSlices)):
        return tf.convert_to_tensor(first) + tf.convert_to_tensor(second)
    return sum_duplicates(tf.IndexedSlices(
        tf.concat([first.values, second.values], 0),
        tf.concat([first.indices, tf.cast(second.indices, first.indices.dtype)], 0), first.dense_shape))


def map_values(function: Any, gradient: Gradient) -> Gradient:
    """Applies a function to the values of a dense gradient or of slices."""
    if isinstance(gradient, tf.IndexedSlices):
        return type(gradient)(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)


def values_of(gradients: Gradients) -> list[tf.Tensor]:
    """Returns every gradient's values in FP32, rows of equal index added up."""
    return [tf.cast(sum_duplicates(g).values if isinstance(g, tf.IndexedSlices) else g, tf.float32)
            for g in gradients.values()]


def max_abs(gradients: Gradients) -> tf.Tensor:
    """Returns the largest absolute value over all gradients: FP32 scalar."""
    return tf.reduce_max(tf.stack([_peak(values) for values in values_of(gradients)]))


def _peak(values: tf.Tensor) -> tf.Tensor:
    # Without values (no lookups) the maximum would be -inf.
    return tf.maximum(tf.reduce_max(tf.abs(values)), 0.0)


def global_norm(gradients: Gradients) -> tf.Tensor:
    """Returns the square root of the sum of squares over all gradients.

    It is finite if and only if all gradients are finite and the norm fits FP32, so it is the overflow test too.
    Gradients beyond 1e19, whose squares overflow, take a second, slower pass that divides by the largest.

    Args:
      gradients: by name, dense or ``IndexedSlices`` (rows of equal index are added first).

    Returns:
      FP32 scalar; inf or NaN when a gradient is not finite.
    """
    values = values_of(gradients)
    squares = 2.0 * tf.add_n([tf.nn.l2_loss(v) for v in values])

    def with_large_values() -> tf.Tensor:
        peak = tf.reduce_max(tf.stack([_peak(v) for v in values]))
        return peak * tf.sqrt(2.0 * tf.add_n([tf.nn.l2_loss(v / peak) for v in values]))

    return tf.cond(tf.math.is_finite(squares), lambda: tf.sqrt(squares), with_large_values)


def clip_factor(norm: tf.Tensor, max_norm: float) -> tf.Tensor:
    """Returns the factor for gradients of this global norm: ``max_norm / max(norm, max_norm)``.

    Pascanu et al. 2013, "On the difficulty of training recurrent neural networks".
    """
    return max_norm / tf.maximum(norm, max_norm)
