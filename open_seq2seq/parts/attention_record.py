"""Makes the attention weights over the source available outside of the layers that compute them.

Within ``recording_attention``, the decoder layers of translation models that attend to the source (Transformer,
convolutional and recurrent ones) record their attention weights. Outside of it, nothing is recorded or added to the
traced function.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Sequence

import tensorflow as tf

_RECORD: contextvars.ContextVar[list[tf.Tensor] | None] = contextvars.ContextVar("attention_record", default=None)


@contextlib.contextmanager
def recording_attention() -> Iterator[list[tf.Tensor]]:
    """Context manager that yields a list, to which layers append their attention weights over the source in order."""
    record: list[tf.Tensor] = []
    token = _RECORD.set(record)
    try:
        yield record
    finally:
        _RECORD.reset(token)


def record_attention(weights: tf.Tensor) -> None:
    """Records the attention weights of one layer, ``[batch, heads, time or beam, source]``."""
    record = _RECORD.get()
    if record is not None:
        record.append(weights)


def mean_attention(record: Sequence[tf.Tensor], layer: int | None = None,
                   heads: Sequence[int] | None = None) -> tf.Tensor:
    """Returns the mean of recorded attention weights over layers and heads, ``[batch, time or beam, source]`` FP32.

    Args:
      record: attention weights of at least one layer.
      layer: index of the layer; negative indices count from the last layer. None for all layers.
      heads: indices of the heads; None for all.
    """
    layers = list(record) if layer is None else [record[layer]]
    chosen = [tf.cast(weights, tf.float32) for weights in layers]
    if heads is not None:
        chosen = [tf.gather(weights, list(heads), axis=1) for weights in chosen]
    return tf.add_n([tf.reduce_mean(weights, 1) for weights in chosen]) / float(len(chosen))
