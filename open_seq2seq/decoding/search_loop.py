"""The loop that all searches share; it can take sentences out of the batch as soon as their search has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def growing_shape(tensor: tf.Tensor) -> tf.TensorShape:
    """Returns the part of a shape ``[batch, beam, …]`` that is the same at every step: its rank and its beam size."""
    rank = tensor.shape.rank
    return tf.TensorShape([None, tensor.shape[1], *[None] * (rank - 2)] if rank and rank > 1 else [None] * (rank or 0))


def run_search(advance: Callable[[Any, Any], Any], result: Callable[[Any, Any], Any], state: Any, sentences: Any,
               shrinks: bool) -> Any:
    """Advances a search until all its sentences are done, and returns its result.

    Args:
      advance: function of (sentences, state) that returns the state after one more step.
      result: function of (sentences, state) that returns the result, a named tuple of tensors ``[batch, …]``. The first
        tensor contains ids, and its last dimension is the number of steps.
      state: named tuple of tensors ``[batch, beam, …]`` or ``[batch]``, or nests of them, whose dimensions after the
        second may grow. The first field is a scalar, the number of steps. The field ``done`` tells which sentences, or
        which of their hypotheses, are done; later steps do not change their result.
      sentences: nest of tensors ``[batch, …]``, which are the same at all steps.
      shrinks: whether to take sentences out of the batch.
    """
    if not shrinks:
        return result(sentences, _advanced(advance, state, sentences, 0))

    def body(rows: tf.Tensor, state: Any, sentences: Any, results: Any) -> Any:
        """Continues until a quarter of the sentences are done, and takes them out; ``rows`` are the others' indices."""
        state = _advanced(advance, state, sentences, tf.size(rows) * 3 // 4)
        longer = [[0, 0]] * (results[0].shape.rank - 1) + [[0, state[0] - tf.shape(results[0])[-1]]]
        results = type(results)(tf.pad(results[0], longer), *results[1:])
        results = tf.nest.map_structure(lambda old, new: tf.tensor_scatter_nd_update(old, rows[:, tf.newaxis], new),
                                        results, result(sentences, state))
        unfinished = tf.where(_unfinished(state))[:, 0]
        rows, others, sentences = tf.nest.map_structure(lambda part: tf.gather(part, unfinished),
                                                        (rows, tuple(state)[1:], sentences))
        return rows, type(state)(state[0], *others), sentences, results

    variables = (tf.range(tf.shape(state.done)[0]), state, sentences, result(sentences, state))
    shapes = (tf.TensorShape([None]), _shapes_of(state), tf.nest.map_structure(_any_rows, sentences),
              tf.nest.map_structure(growing_shape, variables[3]))
    return tf.while_loop(lambda rows, state, *_: tf.reduce_any(_unfinished(state)), body, variables,
                         shape_invariants=shapes, name="shrinking")[3]


def _advanced(advance: Callable[[Any, Any], Any], state: Any, sentences: Any, left: Any) -> Any:
    """Advances a search until at most ``left`` of its sentences are not done."""
    kind = type(state)
    return kind(*tf.while_loop(
        lambda *parts: tf.math.count_nonzero(_unfinished(kind(*parts)), dtype=tf.int32) > left,
        lambda *parts: tuple(advance(sentences, kind(*parts))), tuple(state), shape_invariants=tuple(_shapes_of(state)),
        name="search"))


def _unfinished(state: Any) -> tf.Tensor:
    """Returns which sentences are not done, ``[batch]``."""
    return ~state.done if state.done.shape.rank == 1 else ~tf.reduce_all(state.done, 1)


def _shapes_of(state: Any) -> Any:
    return type(state)(*(tf.nest.map_structure(growing_shape, part) for part in state))


def _any_rows(tensor: tf.Tensor) -> tf.TensorShape:
    return tf.TensorShape([None]).concatenate(tensor.shape[1:])
