"""Dropout with a cheap mask: one 64-bit random number is drawn for every four elements.

The keep probability is rounded to a multiple of 1/65536, and kept elements are divided by the rounded probability, so
that the expectation is unchanged.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.randomness import next_words

_LEVELS = 1 << 16


def keep_scale(rate: float, training: bool = True) -> float:
    """Returns the factor for kept elements: 1 / (rounded keep probability), or 1 when not training.

    Raises:
      ValueError: the rate is not in [0, 1).
    """
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"A dropout rate must be at least 0 and below 1, got {rate}.")
    return _LEVELS / (_LEVELS - _dropped_levels(rate)) if training else 1.0


def _dropped_levels(rate: float) -> int:
    return min(round(rate * _LEVELS), _LEVELS - 1)


def keep_mask(shape: Any, rate: float) -> tf.Tensor:
    """Draws a dropout mask with the next random words of the forward pass.

    Args:
      shape: the mask's shape, a list or an int32 tensor.
      rate: fraction of the elements to drop.

    Returns:
      Boolean tensor of this shape, True where elements are kept.
    """
    return _drawn_mask(shape, rate, False)


def keep_mask_of(x: tf.Tensor, rate: float) -> tf.Tensor:
    """Draws the mask of ``keep_mask(tf.shape(x), rate)``, with fewer operations if the static shape allows it."""
    known = 1 if x.shape.rank is None else math.prod(size for size in x.shape if size is not None)
    return _drawn_mask(tf.shape(x), rate, known % 4 == 0)


def _drawn_mask(shape: Any, rate: float, is_multiple: bool) -> tf.Tensor:
    """Returns the mask of ``keep_mask``; ``is_multiple`` says that the number of elements is a multiple of 4."""
    count = tf.reduce_prod(shape)
    # Full-range int64 numbers are the cheapest to draw per bit; each is split into four int16.
    levels = tf.reshape(tf.bitcast(next_words((count + 3) // 4), tf.int16), [-1])
    if not is_multiple:
        levels = levels[:count]
    # The smallest int16 is -_LEVELS / 2.
    return tf.reshape(levels >= tf.constant(_dropped_levels(rate) - _LEVELS // 2, tf.int16), shape)


@tf.custom_gradient
def mask_out(x: tf.Tensor, keep: tf.Tensor) -> Any:
    """Returns ``x`` where ``keep`` is True, else 0; the shapes must be equal. The gradient uses the same mask."""
    zero = tf.zeros([], x.dtype)

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, None]:
        return tf.where(keep, dy, zero), None

    return tf.where(keep, x, zero), grad


def dropout(x: tf.Tensor, rate: float, training: bool) -> tf.Tensor:
    """Sets a random fraction of the elements to 0 and scales the others up; the identity when not training.

    See Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html.

    Args:
      x: floating-point tensor.
      rate: fraction of the elements to drop, in [0, 1).
      training: whether to apply dropout, which requires a ``forward_pass`` of a micro-batch.

    Raises:
      ValueError: the rate is not in [0, 1).
    """
    scale = keep_scale(rate, training)
    if not training or rate == 0.0:
        return x
    return mask_out(x * tf.cast(scale, x.dtype), keep_mask_of(x, rate))


@tf.custom_gradient
def _add_masked(x: tf.Tensor, update: tf.Tensor, keep: tf.Tensor) -> Any:
    zero = tf.zeros([], x.dtype)

    def grad(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, None]:
        return dy, tf.where(keep, dy, zero), None

    return x + tf.where(keep, update, zero), grad


def add_dropped(x: tf.Tensor, update: tf.Tensor, rate: float, training: bool) -> tf.Tensor:
    """Returns ``x + mask · update``, a residual connection with dropout.

    ``update`` must already contain the scale of dropout: the caller multiplies a weight matrix by
    ``keep_scale(rate, training)``, which saves a pass over the activations.

    Args:
      x: the residual input, of any shape.
      update: the sublayer's output, of the same shape, already scaled.
      rate: fraction of the elements of ``update`` to drop.
      training: whether to apply dropout.
    """
    if not training or rate == 0.0:
        return x + update
    return _add_masked(x, update, keep_mask_of(x, rate))


def locked_dropout(x: tf.Tensor, rate: float, training: bool) -> tf.Tensor:
    """Applies variational dropout: the same mask at all steps of a sequence (Gal and Ghahramani 2016).

    See https://arxiv.org/abs/1512.05287.

    Args:
      x: ``[time, batch, channels]``.
      rate: see ``dropout``.
      training: see ``dropout``.

    Raises:
      ValueError: the rate is not in [0, 1).
    """
    scale = keep_scale(rate, training)
    if not training or rate == 0.0:
        return x
    keep = keep_mask(tf.concat([[1], tf.shape(x)[1:]], 0), rate)
    return x * tf.where(keep, tf.cast(scale, x.dtype), tf.zeros([], x.dtype))
