"""Sampled softmax: cross-entropy over the label and a sample of the other ids, for large vocabularies.

See Jean et al. 2015, https://arxiv.org/abs/1412.2007. The ids are drawn with replacement from the log-uniform (Zipf)
distribution P(id) = log((id + 2) / (id + 1)) / log(ids + 1), so ids must be sorted by descending frequency.
"""

from __future__ import annotations

import math

import tensorflow as tf

from open_seq2seq.parts.randomness import next_seed

_NEVER = -1e9


def log_uniform_ids(count: int, num_ids: int, seed: tf.Tensor) -> tf.Tensor:
    """Draws ids ``[count]`` int32, with replacement, from the log-uniform distribution.

    Args:
      count: number of ids to draw.
      num_ids: size of the vocabulary.
      seed: int64 ``[2]``.
    """
    uniform = tf.random.stateless_uniform([count], seed)
    return tf.minimum(tf.cast(tf.exp(uniform * math.log(num_ids + 1.0)), tf.int32) - 1, num_ids - 1)


def log_expected_counts(ids: tf.Tensor, count: int, num_ids: int) -> tf.Tensor:
    """Returns the logarithm of how often each id is expected among ``count`` drawn ones, FP32 in the shape of ids."""
    rank = tf.cast(ids, tf.float32)
    return tf.math.log(tf.math.log1p(1.0 / (rank + 1.0)) * (count / math.log(num_ids + 1.0)))


def sampled_cross_entropy(hidden: tf.Tensor, table: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor,
                          num_sampled: int) -> tf.Tensor:
    """Returns the weighted sum of the rows' sampled cross-entropies, an FP32 scalar.

    The sum of exp(logit) over all ids but the label is estimated, without bias, by that of exp(logit) / expected count
    over the drawn ids, leaving out those that are the row's label. All rows share one sample, drawn with the next seed
    of ``randomness.random_scope``.

    Args:
      hidden: ``[rows, hidden]`` in the compute dtype.
      table: ``[vocabulary, hidden]`` FP32; the logits are ``hidden · tableᵀ``.
      labels: ``[rows]`` int32.
      weights: ``[rows]`` FP32.
      num_sampled: number of ids to draw.
    """
    num_ids = table.shape[0]
    drawn = log_uniform_ids(num_sampled, num_ids, next_seed())
    sampled = tf.cast(tf.matmul(hidden, tf.cast(tf.gather(table, drawn), hidden.dtype), transpose_b=True), tf.float32)
    sampled -= log_expected_counts(drawn, num_sampled, num_ids)
    sampled = tf.where(labels[:, tf.newaxis] == drawn, _NEVER, sampled)
    true = tf.reduce_sum(tf.cast(hidden, tf.float32) * tf.gather(table, labels), -1)
    logits = tf.concat([true[:, tf.newaxis], sampled], 1)
    return tf.reduce_sum((tf.reduce_logsumexp(logits, 1) - true) * weights)
