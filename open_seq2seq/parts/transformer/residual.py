"""Residual connection around sublayers: normalisation before the sublayer, dropout and sum after it."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dropout import add_dropped, keep_scale


def residual_sublayer(x: tf.Tensor, norm: Module, sublayer: Callable[[tf.Tensor, float], tf.Tensor],
                      dropout_rate: float, mask: tf.Tensor | None = None, training: bool = False) -> tf.Tensor:
    """Returns ``x + dropout(sublayer(norm(x)))``.

    Args:
      x: ``[..., hidden]``.
      norm: normalisation layer, which is called with (x, mask, training).
      sublayer: function of (normalised input, scale of dropout). It must multiply its result by the scale, usually by
        multiplying its last matrix.
      dropout_rate: rate of dropout on the sublayer's result.
      mask: boolean mask of the shape of ``x`` without the last axis; False at padding.
      training: whether to apply dropout and normalise as in training.
    """
    update = sublayer(norm(x, mask, training), keep_scale(dropout_rate, training))
    return add_dropped(x, update, dropout_rate, training)
