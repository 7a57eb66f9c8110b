"""Penalties on weights, for ``regularizer`` and ``regularizer_params`` in configs."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from open_seq2seq.config.names import register, with_package


def l2_regularizer(scale: float) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that computes the penalty ``scale · Σ w² / 2``, whose gradient is ``scale · w``.

    Keras' ``L2(x)`` does not divide by 2, so it equals this penalty with ``scale = 2x``.
    """
    return lambda weights: scale * tf.nn.l2_loss(tf.convert_to_tensor(weights))


def l1_regularizer(scale: float) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that computes the penalty ``scale · Σ |w|``."""
    return lambda weights: scale * tf.reduce_sum(tf.abs(weights))


_NAMES = {function.__name__: function for function in (l1_regularizer, l2_regularizer)}
register("regularizer", lambda: with_package(_NAMES, "open_seq2seq.optimizers"))
