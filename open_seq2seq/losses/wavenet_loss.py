"""The loss of WaveNet."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.losses.loss import Loss, LossTerm, example_weights
from open_seq2seq.parts.wavenet import mu_law_ids


class WavenetLoss(Loss):
    """Mean cross-entropy of the quantised samples that have a full receptive field before them.

    ``decoder_output`` has ``logits`` ``[batch, samples', levels]`` for the last ``samples'`` samples, and the
    ``target_tensors`` are audio ``[batch, samples]`` and its lengths ``[batch]``.
    """

    unit = "sample"

    def _compute_loss(self, input_dict: dict[str, Any]) -> LossTerm:
        logits = tf.cast(input_dict["decoder_output"]["logits"], tf.float32)
        audio, lengths = input_dict["target_tensors"][:2]
        first = tf.shape(audio)[1] - tf.shape(logits)[1]
        labels = mu_law_ids(audio, logits.shape[-1])[:, first:]
        mask = tf.sequence_mask(lengths, tf.shape(audio)[1], tf.float32)[:, first:]
        mask *= example_weights(input_dict)[:, tf.newaxis]
        errors = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return LossTerm(tf.reduce_sum(errors * mask), tf.reduce_sum(mask), unit="sample")
