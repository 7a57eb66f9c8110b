"""Gradients of embedding lookups on several ranks, which are sent as rows or as the whole table, and summed."""

from __future__ import annotations

import tensorflow as tf

from open_seq2seq.optimizers.clipping import UniqueRows

_FLAG_BYTES = 4  # size of the FP32 flag that is sent for each row of a table: whether the row was looked up


def travel_as_rows(tensor: UniqueRows, rows: tf.Tensor, value_bytes: int) -> tf.Tensor:
    """Returns whether gathering rows sends fewer bytes than summing whole tables, as a bool scalar.

    In a ring of N ranks, each rank receives (N - 1) / N of all rows, or twice (N - 1) / N of a table.

    Args:
      tensor: this rank's gradient of a table.
      rows: number of rows in the gradients of all ranks together, an integer scalar.
      value_bytes: size of one value when sent, in bytes.
    """
    width = (tensor.values.shape[1:].num_elements() or 0) * value_bytes
    as_rows = tf.cast(rows, tf.int64) * (width + tensor.indices.dtype.size)
    return as_rows < 2 * tf.cast(tensor.dense_shape[0], tf.int64) * (width + _FLAG_BYTES)


def spread(tensor: UniqueRows) -> list[tf.Tensor]:
    """Returns the gradient as a dense table, and which of its rows were looked up.

    Returns:
      [table ``[rows, …]`` with zeros in the other rows, FP32 flags ``[rows]``: 1 for rows looked up, otherwise 0].
    """
    rows = tf.cast(tensor.dense_shape[0], tf.int32)
    return [tf.math.unsorted_segment_sum(values, tensor.indices, rows)
            for values in (tensor.values, tf.ones_like(tensor.indices, tf.float32))]


def add_rank_by_rank(values: tf.Tensor, indices: tf.Tensor, counts: tf.Tensor) -> list[tf.Tensor]:
    """Sums rows with equal indices in rank order, so that the sums are bitwise equal on all ranks.

    If all ranks' rows were summed at once, the sums would depend on the order in which a GPU adds them. One rank after
    another has a fixed order, because the indices of one rank are distinct.

    Args:
      values: ``[rows of all ranks, …]``, in rank order.
      indices: ``[rows of all ranks]``.
      counts: number of rows of each rank, integer ``[ranks]``.

    Returns:
      [sums ``[distinct rows, …]``, their indices].
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
