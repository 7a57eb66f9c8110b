"""Forms of operations that other runtimes can hold; see ``ForwardPass.portable``.

Elsewhere, code is written so that it needs no second form: ``tf.expand_dims`` instead of an index with ``...`` and
``tf.newaxis``, and divisions that round up without negative numbers, because converters truncate their quotients.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.forward_pass import current_pass

_LEAST = -1e30


def in_shape(x: tf.Tensor, shape: Any, is_padded: bool = False) -> tf.Tensor:
    """Returns ``x`` with the given static shape, as ``tf.ensure_shape`` does.

    In a portable pass, ``x`` is reshaped, because other runtimes have no operation that checks shapes.

    Args:
      x: a tensor.
      shape: its shape, with None for unknown sizes.
      is_padded: whether ``x`` comes from ``tf.pad`` with computed paddings. Its static sizes are then known while it is
        traced, but not to those who read the graph.
    """
    shape = tf.TensorShape(shape)
    if not current_pass().portable:
        return tf.ensure_shape(x, shape)
    merged = shape if x.shape.rank is None else x.shape.merge_with(shape)
    is_noted = x.shape.rank is not None and merged.as_list() == x.shape.as_list()
    if merged.rank is None or (is_noted and not is_padded):
        return x
    sizes = tf.shape(x)
    return tf.reshape(x, [sizes[axis] if size is None else size for axis, size in enumerate(merged.as_list())])


def least_score() -> float:
    """Returns the score of what must not be chosen: -inf, in a portable pass finite.

    Converters write ``tf.where`` as products, and 0 · inf is not a number.
    """
    return _LEAST if current_pass().portable else float("-inf")
