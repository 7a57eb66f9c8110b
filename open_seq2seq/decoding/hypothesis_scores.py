"""Scores of hypotheses: normalisation by length, and the coverage penalty."""

from __future__ import annotations

import tensorflow as tf

WU, CTRANSLATE2 = "wu", "ctranslate2"

_LEAST_COVERAGE = 1e-10  # lower bound, because attention in half precision can be 0, whose logarithm is infinite


def length_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """Returns ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14)."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


def length_divisor(length: tf.Tensor, alpha: float, rules: str) -> tf.Tensor:
    """Returns the number by which the log probabilities of hypotheses are divided.

    Args:
      length: number of tokens, including EOS.
      alpha: exponent.
      rules: ``wu`` for ``length_penalty``; ``ctranslate2`` for length^alpha, with a length of at least 1.
    """
    if rules == WU:
        return length_penalty(length, alpha)
    return tf.pow(tf.cast(tf.maximum(length, 1), tf.float32), alpha)


def coverage_penalty(coverage: tf.Tensor, weight: float) -> tf.Tensor:
    """Returns weight · Σ log(min(coverage, 1)), at most 0 (Wu et al. 2016, equation 14).

    Args:
      coverage: sum of the attention that each source position has received, ``[..., source]`` FP32; 1 at padding.
      weight: weight of the penalty.
    """
    held = tf.clip_by_value(coverage, _LEAST_COVERAGE, 1.0)
    return weight * tf.reduce_sum(tf.math.log(held), -1)
