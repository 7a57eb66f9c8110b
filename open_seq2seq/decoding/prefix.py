"""Forces hypotheses to begin with given ids, in any search."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.decoding.beam_search import NEGATIVE_INFINITY, StepFunction


class Prefix(NamedTuple):
    """The ids with which the hypotheses of each sentence begin.

    Attributes:
      ids: ``[batch, longest]`` int32.
      lengths: number of ids in each prefix, ``[batch]`` int32; 0 where nothing is forced.
    """

    ids: tf.Tensor
    lengths: tf.Tensor


def with_prefix(step_fn: StepFunction, prefix: Prefix, are_log_probs: bool) -> StepFunction:
    """Returns a step function that allows only the next id of the prefix until the prefix ends.

    All other ids get the log probability -inf. The ids of the prefix keep the log probabilities that the model gives
    them, so the scores are those of whole hypotheses, including the prefix.

    Args:
      step_fn: see ``beam_search``.
      prefix: the forced ids.
      are_log_probs: whether ``step_fn`` returns log probabilities; the returned function always does.
    """
    ids = tf.pad(prefix.ids, [[0, 0], [0, 1]])  # adds a column to read after the longest prefix

    def step(last: tf.Tensor, number: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        scores, cache = step_fn(last, number, cache)
        scores = tf.cast(scores, tf.float32)
        log_probs = scores if are_log_probs else tf.nn.log_softmax(scores)
        forced = ids[:, tf.minimum(number, tf.shape(ids)[1] - 1)]
        is_free = (number >= prefix.lengths)[:, tf.newaxis]
        allowed = is_free | tf.equal(tf.range(tf.shape(scores)[2]), forced[:, tf.newaxis])
        return tf.where(allowed[:, tf.newaxis], log_probs, NEGATIVE_INFINITY), cache

    return step
