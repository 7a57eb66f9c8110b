"""Splits the rows of a batch into groups, and joins results that were computed by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

# Entries of an encoder's output that are the same for all rows.
SHARED_KEYS = ("embedding_softmax_layer", "embedding_table")


def rows_of(output: Mapping[str, Any], rows: tf.Tensor) -> dict[str, Any]:
    """Returns an encoder's output for some rows of the batch.

    Args:
      output: see ``parts.keys.EncoderOutput``; all tensors, also those in nested structures such as ``state``, have the
        batch as axis 0, except the entries named in ``SHARED_KEYS``.
      rows: indices of the rows, int32 ``[rows]``.
    """
    return {key: value if value is None or key in SHARED_KEYS else
            tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), value) for key, value in output.items()}


def joined_rows(groups: Sequence[tuple[tf.Tensor, tf.Tensor]]) -> tf.Tensor:
    """Joins tensors that were computed for groups of rows.

    Args:
      groups: pairs of row indices ``[rows]`` and a tensor ``[rows, …]``; each row of the batch is in exactly one group.
        The tensors must have the same rank; they are padded with zeros to a common size.

    Returns:
      Tensor ``[batch, …]``, with the rows in the order of their indices.
    """
    shapes = tf.stack([tf.shape(tensor) for _, tensor in groups])
    sizes = tf.reduce_max(shapes, axis=0)
    padded = []
    for number, (_, tensor) in enumerate(groups):
        missing = tf.concat([[0], sizes[1:] - shapes[number, 1:]], 0)
        padded.append(tf.pad(tensor, tf.stack([tf.zeros_like(missing), missing], axis=1)))
    order = tf.argsort(tf.concat([rows for rows, _ in groups], 0))
    return tf.gather(tf.concat(padded, 0), order)
