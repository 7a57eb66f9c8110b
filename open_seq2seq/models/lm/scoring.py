"""Log likelihoods of texts under a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.cross_entropy import SoftTargets


def token_surprises(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Returns minus the log probability of each token in nats, ``[batch, time]`` FP32.

    Args:
      logits: ``[batch, time, vocabulary]``.
      ids: ``[batch, time]`` int32.
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(ids, tf.cast(logits, tf.float32))


def surprises(output: Mapping[str, Any], target_tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns minus the log likelihood of each row's targets in nats, ``[batch]`` FP32.

    If the output has a ``projection`` (see ``OutputProjection``), the logits are computed in chunks, to save memory.

    Args:
      output: output of a language model's decoder or encoder, with ``logits`` ``[batch, time, vocabulary]`` or a
        ``projection``.
      target_tensors: ids ``[batch, time]`` and lengths ``[batch]``.
    """
    ids, lengths = target_tensors[:2]
    projection = output.get("projection")
    if projection is None:
        by_token = token_surprises(output["logits"], ids)
    else:
        by_token = projection.surprises(*_flat(projection, ids))
    held = tf.sequence_mask(lengths, tf.shape(ids)[1])
    return tf.reduce_sum(tf.where(held, tf.reshape(by_token, tf.shape(ids)), 0.0), 1)


def total_surprise(output: Mapping[str, Any], target_tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the sum of ``surprises`` over all rows, an FP32 scalar. The arguments are those of ``surprises``."""
    projection = output.get("projection")
    if projection is None:
        return tf.reduce_sum(surprises(output, target_tensors))
    ids, lengths = target_tensors[:2]
    held = tf.sequence_mask(lengths, tf.shape(ids)[1], tf.float32)
    return projection.cross_entropy(*_flat(projection, ids), tf.reshape(held, [-1]), SoftTargets(1.0, 0.0))


def _flat(projection: Any, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the hidden states ``[batch · time, hidden]`` and the ids ``[batch · time]`` of all positions."""
    return tf.reshape(projection.hidden, [-1, projection.hidden.shape[-1]]), tf.reshape(ids, [-1])
