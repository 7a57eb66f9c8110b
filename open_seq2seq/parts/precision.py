"""Reading FP32 master weights in the compute type, cast once per forward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

_CACHES: list[dict] = []


@contextlib.contextmanager
def weight_cast_scope() -> Iterator[None]:
    """Within this context a weight is cast once, however often it is read."""
    _CACHES.append({})
    try:
        yield
    finally:
        _CACHES.pop()


def cast_weight(variable: tf.Variable, dtype: tf.DType) -> tf.Tensor:
    """Returns the variable's value in ``dtype``; the gradient arrives in FP32."""
    if variable.dtype == dtype:
        return tf.convert_to_tensor(variable)
    if not _CACHES:
        return tf.cast(variable, dtype)
    # The graph is part of the key: a tensor of a loop body is no use outside of it.
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    key = (id(variable), dtype, id(graph))
    cache = _CACHES[-1]
    if key not in cache:
        cache[key] = (tf.cast(variable, dtype), variable)
    return cache[key][0]
