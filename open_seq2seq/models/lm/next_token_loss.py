"""The loss of a language model as an additional loss of a classifier (Chronopoulou et al. 2019)."""

from __future__ import annotations

import tensorflow as tf

from open_seq2seq.losses.loss import LossTerm
from open_seq2seq.parts.adaptive_softmax import AdaptiveProjection
from open_seq2seq.parts.cross_entropy import SoftTargets
from open_seq2seq.parts.output_layer import OutputProjection


def next_token_loss(projection: OutputProjection | AdaptiveProjection, ids: tf.Tensor, lengths: tf.Tensor,
                    weight: float) -> LossTerm:
    """Returns a loss term: ``weight`` times the mean cross-entropy of each text's tokens after the first.

    See https://arxiv.org/abs/1902.10547, where the weight falls during training; here it is constant.

    Args:
      projection: the encoder's hidden states ``[batch, time, channels]`` and the matrix of the logits of tokens.
      ids: the texts, ``[batch, time]`` int32.
      lengths: ``[batch]`` int32, in tokens.
      weight: factor of the term.
    """
    hidden = projection.hidden[:, :-1]
    predicted = tf.sequence_mask(tf.maximum(lengths - 1, 0), tf.shape(hidden)[1], tf.float32)
    total = projection.cross_entropy(tf.reshape(hidden, [-1, hidden.shape[-1]]), tf.reshape(ids[:, 1:], [-1]),
                                     tf.reshape(predicted, [-1]), SoftTargets(1.0, 0.0))
    return LossTerm(total, tf.reduce_sum(predicted), weight, "token", "loss of next tokens")
