"""Gradients of lookups on several ranks: sent as rows or as the whole table, and summed."""

from __future__ import annotations

import tensorflow as tf

from open_seq2seq.optimizers.clipping import UniqueRows

_FLAG_BYTES = 4  # for each row of a table: whether it was looked up


def travel_as_rows(tensor: UniqueRows, rows: tf.Tensor, value_bytes: int) -> tf.Tensor:
    """Returns whether gathering rows sends fewer bytes than summing whole tables.

    In a ring of N ranks each one receives (N - 1) / N of all rows, or twice (N - 1) / N of a table.

    Args:
      tensor: a gradient.
      rows: number of rows of all ranks, an integer scalar.
      value_bytes: of one value that is sent.
    """
    width = (tensor.values.shape[1:].num_elements() or 0) * value_bytes
    as_rows = tf.cast(rows, tf.int64) * (width + tensor.indices.dtype.size)
    return as_rows < 2 * tf.cast(tensor.dense_shape[0], tf.int64) * (width + _FLAG_BYTES)


def spread(tensor: UniqueRows) -> list[tf.Tensor]:
    """Returns the whole table ``[rows, …]``, and FP32 ``[rows]``: 1 for rows that were looked up, else 0."""
    rows = tf.cast(tensor.dense_shape[0], tf.int32)
    return [tf.math.unsorted_segment_sum(values, tensor.indices, rows)
            for values in (tensor.values, tf.ones_like(tensor.indices, tf.float32))]


def add_rank_by_rank(values: tf.Tensor, indices: tf.Tensor, counts: tf.Tensor) -> list[tf.Tensor]:
    """Sums rows of equal index, in the order of ranks, so that all ranks get the same bits.

    A GPU adds many rows at once in any order. Within one rank indices are unique.

    Args:
      values: ``[rows of all ranks, …]``, those of the first rank first.
      indices: ``[rows of all ranks]``.
      counts: ``[ranks]``, integer.

    Returns:
      [sums ``[different rows, …]``, their indices].
    """
    different, places = tf.unique(indices)
    ends = tf.cumsum(counts)

    def add(rank: tf.Tensor, sums: tf.Tensor) -> list[tf.Tensor]:
        own = slice(ends[rank] - counts[rank], ends[rank])
        return [rank + 1, tf.tensor_scatter_nd_add(sums, places[own][:, tf.newaxis], values[own])]

    start = tf.zeros(tf.concat([tf.shape(different), tf.shape(values)[1:]], 0), values.dtype)
    start = tf.ensure_shape(start, [None, *values.shape[1:]])
    _, sums = tf.while_loop(lambda rank, _: rank < tf.size(counts), add, [tf.constant(0), start])
    return [sums, different]
