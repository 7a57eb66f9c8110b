"""What training makes of a padded batch, to be compared with what it makes of the same batch padded otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


def trained(encoder: Any, encode: Callable[[], dict[str, Any]], measure: Callable[[tf.Tensor], tf.Tensor]) -> list[Any]:
    """Returns gradients of the sum of ``measure`` over outputs that are not padding, and moving statistics."""
    with tf.GradientTape() as tape:
        result = encode()
        held = tf.sequence_mask(result["src_length"], tf.shape(result["outputs"])[1])
        loss = tf.reduce_sum(measure(tf.boolean_mask(result["outputs"], held)))
    gradients = tape.gradient(loss, encoder.trainable_variables)
    return [*gradients, *(v for v in encoder.variables if not v.trainable)]


def assert_alike(one: list[Any], other: list[Any]) -> None:
    """Compares two results of ``trained`` apart from rounding.

    Rounding errors of large gradients reach the small ones behind them: with a largest gradient of 52, another order of
    the same examples changes gradients by up to 3e-5.
    """
    largest = max(np.abs(value).max() for value in one)
    for first, second in zip(one, other, strict=True):
        np.testing.assert_allclose(first, second, atol=max(2e-5 * max(1.0, np.abs(first).max()), 1e-6 * largest))
