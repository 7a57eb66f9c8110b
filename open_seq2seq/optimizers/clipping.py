"""Norms and clipping, in FP32, of dense gradients and of ``IndexedSlices``, the gradients of embedding tables."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

Gradient = Any  # tf.Tensor or tf.IndexedSlices
Gradients = dict[str, Any]  # the gradients by variable name

_LARGEST_JOINED = 2 ** 18  # values
_TINY = 2.0 ** -100  # times this, the square of any FP32 value is in range


class UniqueRows(tf.IndexedSlices):
    """``IndexedSlices`` without duplicate indices, made by ``sum_duplicates``."""


def sum_duplicates(slices: tf.IndexedSlices) -> UniqueRows:
    """Sums the rows that have the same index.

    The gradient of an embedding lookup has one row per lookup, so indices may repeat. A norm over those rows, or an
    update that writes them one after another, would be wrong.

    Args:
      slices: values ``[rows, …]`` with indices ``[rows]``.

    Returns:
      The same gradient, in which each index occurs once.
    """
    if isinstance(slices, UniqueRows):
        return slices
    indices, positions = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, positions, tf.size(indices))
    return UniqueRows(values, indices, slices.dense_shape)


def unique_rows_for_xla(slices: tf.IndexedSlices) -> UniqueRows:
    """Sums the rows that have the same index, as ``sum_duplicates``, but returns as many rows as there are lookups.

    XLA needs their number, and looks for unique values in a loop. Here the first row of each index holds the sum, and
    the others hold 0 with an index past the last row, which XLA does not write.

    Args:
      slices: values ``[rows, …]`` with indices ``[rows]``.
    """
    count, end = tf.size(slices.indices), tf.cast(slices.dense_shape[0], slices.indices.dtype)
    numbers = tf.range(count)
    first = tf.gather(tf.math.unsorted_segment_min(numbers, slices.indices, end), slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, first, count)
    return UniqueRows(values, tf.where(first == numbers, slices.indices, end), slices.dense_shape)


def add_gradients(first: Gradient, second: Gradient) -> Gradient:
    """Adds two gradients of a variable; returns ``UniqueRows`` if both are ``IndexedSlices``, else a dense tensor."""
    if not (isinstance(first, tf.IndexedSlices) and isinstance(second, tf.IndexedSlices)):
        return tf.convert_to_tensor(first) + tf.convert_to_tensor(second)
    return sum_duplicates(tf.IndexedSlices(
        tf.concat([first.values, second.values], 0),
        tf.concat([first.indices, tf.cast(second.indices, first.indices.dtype)], 0), first.dense_shape))


def map_values(function: Any, gradient: Gradient) -> Gradient:
    """Applies a function to the values of a dense gradient or of ``IndexedSlices``."""
    if isinstance(gradient, tf.IndexedSlices):
        return type(gradient)(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)


def values_of(gradients: Gradients) -> list[tf.Tensor]:
    """Returns every gradient's values in FP32, with duplicate rows summed."""
    return [tf.cast(sum_duplicates(g).values if isinstance(g, tf.IndexedSlices) else g, tf.float32)
            for g in gradients.values()]


def max_abs(gradients: Gradients) -> tf.Tensor:
    """Returns the largest absolute value in all gradients, an FP32 scalar."""
    # The maximum of no values (no lookups) would be -inf.
    return tf.reduce_max(tf.stack([tf.maximum(tf.reduce_max(tf.abs(values)), 0.0) for values in values_of(gradients)]))


def global_norm(gradients: Gradients, joins: bool = True, for_xla: bool = False) -> tf.Tensor:
    """Returns the square root of the sum of squares over all gradients.

    The result is finite if and only if all gradients are finite and the norm is in the range of FP32, so it also serves
    as the overflow test. If squares overflow (gradients beyond 1e19), a second pass scales the values down before.

    Args:
      gradients: the gradients by name, dense or ``IndexedSlices`` (duplicate rows are summed first).
      joins: whether small gradients are joined. If the norm of each is needed as well, TensorFlow computes both from
        the same sums of squares without this.
      for_xla: whether the second pass is made in any case: XLA makes both passes at once, and a branch costs more,
        because the host of a GPU has to wait for the first sum.

    Returns:
      FP32 scalar; inf or NaN when a gradient is not finite.
    """
    values = values_of(gradients)
    squares = _sum_of_squares(_joined(values) if joins else values)

    def of_large_values() -> tf.Tensor:
        small = [v * _TINY for v in values] if for_xla else [_flat(values) * _TINY]
        return tf.sqrt(_sum_of_squares(small)) / _TINY

    if for_xla:
        return tf.where(tf.math.is_finite(squares), tf.sqrt(squares), of_large_values())
    return tf.cond(tf.math.is_finite(squares), lambda: tf.sqrt(squares), of_large_values)


def _sum_of_squares(values: list[tf.Tensor]) -> tf.Tensor:
    return 2.0 * tf.add_n([tf.nn.l2_loss(v) for v in values])


def scaled(gradients: Gradients, factor: tf.Tensor) -> Gradients:
    """Returns the gradients times a scalar; small ones are joined as in ``global_norm``, and multiplied together."""
    groups = _groups({name: gradient for name, gradient in gradients.items()
                      if not isinstance(gradient, tf.IndexedSlices)})
    products: Gradients = {}
    for group in (group for group in groups if len(group) > 1):
        sizes = [gradients[name].shape.num_elements() for name in group]
        parts = tf.split(_flat([gradients[name] for name in group]) * factor, sizes)
        products.update({name: tf.reshape(part, gradients[name].shape)
                         for name, part in zip(group, parts, strict=True)})
    return {name: products[name] if name in products else map_values(lambda v: v * factor, gradient)
            for name, gradient in gradients.items()}


def _joined(values: list[tf.Tensor]) -> list[tf.Tensor]:
    """Joins small tensors, because a norm of each of them costs more than the copy."""
    groups = _groups(dict(enumerate(values)))
    return [_flat([values[number] for number in group]) if len(group) > 1 else values[group[0]] for group in groups]


def _flat(tensors: list[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


def _groups(tensors: dict[Any, tf.Tensor]) -> list[list[Any]]:
    """Divides tensors, by key, into groups of small ones that are joined, and single large ones or unknown sizes."""
    groups: list[list[Any]] = []
    small: list[Any] = []
    size = 0
    for key, tensor in tensors.items():
        count = tensor.shape.num_elements()
        if count is None or count > _LARGEST_JOINED:
            groups.append([key])
            continue
        if size + count > _LARGEST_JOINED:
            groups.append(small)
            small, size = [], 0
        small.append(key)
        size += count
    return [*groups, small] if small else groups


def clip_factor(norm: tf.Tensor, max_norm: float) -> tf.Tensor:
    """Returns the factor that clips gradients of this global norm: ``max_norm / max(norm, max_norm)``, a scalar.

    See Pascanu et al. 2013, "On the difficulty of training recurrent neural networks".

    Args:
      norm: FP32 scalar, the global norm.
      max_norm: the largest global norm after clipping.
    """
    return max_norm / tf.maximum(norm, max_norm)
