"""Forms of operations that other runtimes can hold; see ``ForwardPass.portable``.

Elsewhere, code is written so that it needs no second form: ``tf.expand_dims`` instead of an index with ``...`` and
``tf.newaxis``, ``tf.equal`` instead of ``==``, whose result has no static rank in a loop, and divisions that round up
without negative numbers, because converters truncate their quotients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.forward_pass import current_pass

_LEAST = -1e30
_STEPS_IN_BLOCK = 8  # number of steps per loop iteration of a portable scan

_Values = tuple[tf.Tensor, ...]


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
    return tf.reshape(x, _sizes(x, merged.as_list()))


def _sizes(x: tf.Tensor, static: Sequence[int | None]) -> list[Any]:
    """Returns the static sizes of ``x``, with computed sizes instead of None."""
    sizes = tf.shape(x)
    return [sizes[axis] if size is None else size for axis, size in enumerate(static)]


def least_score() -> float:
    """Returns the score of what must not be chosen: -inf, in a portable pass finite.

    Converters write ``tf.where`` as products, and 0 · inf is not a number.
    """
    return _LEAST if current_pass().portable else float("-inf")


def scan(step: Callable[[_Values, _Values], _Values], inputs: Sequence[tf.Tensor],
         first: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns what ``tf.scan`` does for tuples; in a portable pass without arrays of tensors.

    Args:
      step: function of the values before a step and the inputs of this step, which returns the new values.
      inputs: the inputs of all steps, ``[time, …]``, of at least rank 2.
      first: the values before the first step.

    Returns:
      The values after every step, ``[time, …]``.
    """
    if current_pass().portable:
        return portable_scan(step, inputs, first, [value.dtype for value in first])
    return list(tf.scan(step, tuple(inputs), tuple(first)))


def portable_scan(step: Callable[[_Values, _Values], _Values], inputs: Sequence[tf.Tensor], first: Sequence[tf.Tensor],
                  dtypes: Sequence[tf.DType]) -> list[tf.Tensor]:
    """Does what ``scan`` does in a portable pass.

    Other runtimes hold arrays of tensors only for a fixed number of examples, or if each is written once per iteration.
    Instead, the values are appended to tensors, ``_STEPS_IN_BLOCK`` steps at a time, because appending copies them.

    Args:
      step: see ``scan``.
      inputs: see ``scan``.
      first: see ``scan``.
      dtypes: types in which the values are returned.
    """
    steps = tf.shape(inputs[0])[0]
    blocks = (steps + _STEPS_IN_BLOCK - 1) // _STEPS_IN_BLOCK
    inputs = [_in_blocks(one, blocks) for one in inputs]
    histories = tuple(tf.zeros([0, *_sizes(value, value.shape)], dtype)
                      for value, dtype in zip(first, dtypes, strict=True))

    def body(number: tf.Tensor, values: _Values, histories: _Values) -> Any:
        every = []
        for one in zip(*(tf.unstack(block[number]) for block in inputs), strict=True):
            values = tuple(step(values, one))
            every.append(values)
        new = [tf.stack([tf.cast(of_step, history.dtype) for of_step in of_steps])
               for history, of_steps in zip(histories, zip(*every, strict=True), strict=True)]
        return number + 1, values, tuple(tf.concat(both, 0) for both in zip(histories, new, strict=True))

    shapes = tuple(value.shape for value in first)
    *_, histories = tf.while_loop(
        lambda number, *_: number < blocks, body, (tf.constant(0), tuple(first), histories),
        shape_invariants=(tf.TensorShape([]), shapes, tuple(tf.TensorShape([None]).concatenate(one) for one in shapes)))
    return [history[:steps] for history in histories]


def _in_blocks(x: tf.Tensor, blocks: tf.Tensor) -> tf.Tensor:
    """Returns ``x`` ``[time, …]`` as ``[blocks, steps in a block, …]``, with zeros after its end."""
    missing = blocks * _STEPS_IN_BLOCK - tf.shape(x)[0]
    padded = tf.pad(x, [[0, missing], *[[0, 0]] * (x.shape.rank - 1)])
    return tf.reshape(padded, [blocks, _STEPS_IN_BLOCK, *_sizes(x, x.shape)[1:]])
