"""Kinds of operations and their dtypes, and the casts of FP32 weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

from open_seq2seq.parts.forward_pass import current_pass

# Kinds of operations: matrix products of many rows; the steps of recurrent layers, which multiply few rows each;
# convolutions. Half precision may make some kinds faster and others slower.
KINDS = ("product", "recurrence", "convolution")


_Computed = TypeVar("_Computed")


def of_weights(compute: Callable[[], _Computed]) -> _Computed:
    """Returns what ``compute`` computes from weights alone, a nest of tensors, such as casts and transposes.

    If the pass has fixed weights, this is computed once, while the pass is traced, and not for every batch.
    """
    if not current_pass().weights_are_fixed:
        return compute()
    with tf.init_scope():
        return compute()


def element_wise_dtype(dtype: tf.DType) -> tf.DType:
    """Returns the faster dtype for tanh, sums and other element-wise operations, given the dtype of matrix products.

    On CPUs, TensorFlow computes element-wise operations more slowly in bfloat16 than in FP32; docs/mixed-precision.md
    has measured times.
    """
    return tf.float32 if dtype == tf.bfloat16 and not tf.config.get_visible_devices("GPU") else dtype


def cast_weight(variable: tf.Variable, dtype: tf.DType) -> tf.Tensor:
    """Returns the variable's value cast to ``dtype``; the variable's gradient is FP32.

    A forward pass casts each weight to a dtype only once per graph.
    """
    if variable.dtype == dtype:
        return tf.convert_to_tensor(variable)
    cache = current_pass().casts
    if cache is None or current_pass().weights_are_fixed:
        return of_weights(lambda: tf.cast(variable, dtype))
    # The graph is part of the key, because a tensor from a loop body cannot be used outside of it.
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    key = (id(variable), dtype, id(graph))
    if key not in cache:
        cache[key] = (tf.cast(variable, dtype), variable)  # keeps the variable alive, so that its id remains valid
    return cache[key][0]
