"""Decoders of several models as one decoder, whose log probabilities are the mean of theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.decoding.beam_search import StepFunction


class Member(NamedTuple):
    """A decoder of an ensemble.

    Attributes:
      decoder: an ``AutoregressiveDecoder``.
      encoder_output: the output of its model's encoder for the batch; see ``parts.keys.EncoderOutput``.
    """

    decoder: Any
    encoder_output: Mapping[str, Any]


def mean_log_probs(members: Sequence[Member], start_id: int, hypotheses: int) -> tuple[StepFunction, Any]:
    """Returns the step function of an ensemble, and its initial cache, a tuple with one cache for each decoder.

    The step function returns the mean of the decoders' log probabilities, so the log probability of a hypothesis is
    the mean of those that the models give to it. The mean is not normalised: the probabilities of all ids sum to less
    than 1 where the models differ.

    Args:
      members: the decoders, which score the same ids.
      start_id: the id that the search feeds to the first step; each decoder gets its own instead.
      hypotheses: number of hypotheses per example.
    """
    prepared = [member.decoder.prepare(member.encoder_output) for member in members]
    first = tuple(member.decoder.initial_cache(member.encoder_output, hypotheses) for member in members)

    def step(ids: tf.Tensor, number: tf.Tensor, caches: Any) -> tuple[tf.Tensor, Any]:
        """Returns the mean log probabilities ``[rows, ids]`` of the next id, FP32, and the new caches."""
        log_probs, grown = [], []
        for (decoder, _), constants, cache in zip(members, prepared, caches, strict=True):
            previous = ids if decoder.start_id == start_id else tf.where(number > 0, ids, decoder.start_id)
            scores, new = decoder.step(previous, number, cache, constants)
            scores = tf.cast(scores, tf.float32)
            log_probs.append(scores if decoder.are_log_probs else tf.nn.log_softmax(scores))
            grown.append(new)
        return tf.add_n(log_probs) / len(log_probs), tuple(grown)

    return step, first
