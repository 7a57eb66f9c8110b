"""Cross-entropy of language models that samples the vocabulary in training."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.losses.sequence_loss import BasicSequenceLoss
from open_seq2seq.parts.output_layer import OutputProjection
from open_seq2seq.parts.randomness import next_seed
from open_seq2seq.utils.errors import ConfigError

# Logit of ids that do not count.
_NEVER = -1e9


def log_uniform_ids(count: int, num_ids: int, seed: tf.Tensor) -> tf.Tensor:
    """Draws ids ``[count]`` int32, with replacement, from the log-uniform distribution.

    Args:
      count: number of ids to draw.
      num_ids: size of the vocabulary.
      seed: int64 ``[2]``.
    """
    # In FP32, the rarest ids of a large vocabulary would be drawn too often or never.
    uniform = tf.random.stateless_uniform([count], seed, dtype=tf.float64, alg="philox")
    return tf.minimum(tf.cast(tf.exp(uniform * math.log(num_ids + 1.0)), tf.int32) - 1, num_ids - 1)


def log_inclusion(ids: tf.Tensor, count: int, num_ids: int) -> tf.Tensor:
    """Returns the log probability that each id is among ``count`` drawn ids, FP32 in the shape of ``ids``.

    Args:
      ids: int32 tensor of any shape.
      count: number of ids that are drawn.
      num_ids: size of the vocabulary.
    """
    share = tf.math.log1p(1.0 / (tf.cast(ids, tf.float32) + 1.0)) / math.log(num_ids + 1.0)
    return tf.math.log(-tf.math.expm1(count * tf.math.log1p(-share)))


def sampled_cross_entropy(hidden: tf.Tensor, table: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor,
                          num_sampled: int) -> tf.Tensor:
    """Returns the weighted sum of the rows' sampled cross-entropies, an FP32 scalar.

    All rows share one sample, drawn with the next seed of the forward pass. A drawn id that is a row's label
    does not count for that row a second time.

    Args:
      hidden: ``[rows, hidden]`` in the compute dtype.
      table: ``[vocabulary, hidden]`` FP32; the logits are ``hidden · tableᵀ``.
      labels: ``[rows]`` int32.
      weights: ``[rows]`` FP32.
      num_sampled: number of ids to draw.
    """
    num_ids = table.shape[0]
    drawn = tf.sort(log_uniform_ids(num_sampled, num_ids, next_seed()))
    repeated = tf.concat([[False], drawn[1:] == drawn[:-1]], 0)
    sampled = tf.cast(tf.matmul(hidden, tf.cast(tf.gather(table, drawn), hidden.dtype), transpose_b=True), tf.float32)
    sampled -= log_inclusion(drawn, num_sampled, num_ids)
    sampled = tf.where(repeated | (labels[:, tf.newaxis] == drawn), _NEVER, sampled)
    true = tf.reduce_sum(tf.cast(hidden, tf.float32) * tf.gather(table, labels), -1)
    true -= log_inclusion(labels, num_sampled, num_ids)
    logits = tf.concat([true[:, tf.newaxis], sampled], 1)
    return tf.reduce_sum((tf.reduce_logsumexp(logits, 1) - true) * weights)


class BasicSampledSequenceLoss(BasicSequenceLoss):
    """``BasicSequenceLoss`` with sampled softmax in training; evaluation uses the whole vocabulary.

    See Jean et al. 2015, https://arxiv.org/abs/1412.2007. The encoder's parameter ``num_sampled`` is the number of ids
    to draw. Ids must be sorted by descending frequency, as those of ``WKTDataLayer`` are, because small ids are drawn
    more often than large ids.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**BasicSequenceLoss.get_optional_params(),
                "hid_dim": Param((int, type(None)), None, "Accepted for old configs; has no effect.", on_change=FREE)}

    def _total(self, output: Any, rows: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        projection = output.get("projection")
        if projection is None:
            raise ConfigError(["'loss' is BasicSampledSequenceLoss, which needs an encoder that returns its hidden "
                               "states and output matrix with the logits: set 'encoder' to LMEncoder or similar, or "
                               "'loss' to BasicSequenceLoss."])
        if not isinstance(projection, OutputProjection):
            raise ConfigError(["'loss' is BasicSampledSequenceLoss, but the encoder has an adaptive_softmax, which is "
                               "not sampled: set 'loss' to BasicSequenceLoss, or leave 'adaptive_softmax' out."])
        count = output.get("num_sampled")
        if not projection.training or count is None or count >= projection.table.shape[0]:
            return super()._total(output, rows, labels, weights)
        return sampled_cross_entropy(rows, projection.table, labels, weights, count)
