"""Dropout with a cheap mask: one 64-bit random word for four elements.

The keep probability is quantised to 1/65536, and kept elements are divided by the quantised probability, so that the
expectation is unchanged.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.randomness import next_seed

_LEVELS = 1 << 16


def keep_scale(rate: float, training: bool = True) -> float:
    """Returns the factor of kept elements: 1 / (quantised keep probability), or 1 when off.

    Raises:
      ValueError: the rate is not in [0, 1).
    """
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"A dropout rate has to be at least 0 and below 1, but is {rate}.")
    return _LEVELS / (_LEVELS - _dropped_levels(rate)) if training else 1.0


def _dropped_levels(rate: float) -> int:
    return min(round(rate * _LEVELS), _LEVELS - 1)


def keep_mask(shape: Any, rate: float) -> tf.Tensor:
    """Draws which elements are kept, by the seed of ``randomness.random_scope``.

    Args:
      shape: the mask's shape, a list or an int32 tensor.
      rate: the share that is dropped.

    Returns:
      Boolean tensor of this shape, True for kept.
    """
    count = tf.reduce_prod(shape)
    # Drawing full-range int64 is the cheapest per bit; each is read as four int16.
    words = tf.random.stateless_uniform([(count + 3) // 4], next_seed(), minval=None, maxval=None, dtype=tf.int64)
    levels = tf.reshape(tf.bitcast(words, tf.int16), [-1])[:count]
    return tf.reshape(levels >= tf.constant(_dropped_levels(rate) - _LEVELS // 2, tf.int16), shape)


@tf.custom_gradient
def mask_out(x: tf.Tensor, keep: tf.Tensor) -> Any:
    """Returns ``x`` where ``keep``, else 0; both of one shape. The mask serves both directions."""
    zero = tf.zeros([], x.dtype)

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None]:
        return tf.where(keep, dy, zero), None

    return tf.where(keep, x, zero), grad


def dropout(x: tf.Tensor, rate: float, training: bool) -> tf.Tensor:
    """Zeroes a random share of the elements and scales the others up; identity when not training.

    Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html

    Args:
      x: any float tensor.
      rate: the share that is dropped, in [0, 1).
      training: whether anything is dropped; needs ``randomness.random_scope`` if so.

    Raises:
      ValueError: the rate is not in [0, 1).
    """
    scale = keep_scale(rate, training)
    if not training or rate == 0.0:
        return x
    return mask_out(x * tf.cast(scale, x.dtype), keep_mask(tf.shape(x), rate))


@tf.custom_gradient
def _add_masked(x: tf.Tensor, update: tf.Tensor, keep: tf.Tensor) -> Any:
    zero = tf.zeros([], x.dtype)

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, None]:
        return dy, tf.where(keep, dy, zero), None

    return x + tf.where(keep, update, zero), grad


def add_dropped(x: tf.Tensor, update: tf.Tensor, rate: float, training: bool) -> tf.Tensor:
    """Residual connection with dropout: ``x + mask · update``.

    The scale of dropout is not applied: the caller multiplies a weight matrix by ``keep_scale(rate, training)``, which
    saves a pass over the activations.

    Args:
      x: the residual stream, any shape.
      update: the sublayer's output, same shape, already scaled.
      rate: the share of ``update`` that is dropped.
    """
    if not training or rate == 0.0:
        return x + update
    return _add_masked(x, update, keep_mask(tf.shape(x), rate))
