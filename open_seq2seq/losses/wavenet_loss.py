"""The loss of WaveNet."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.losses.loss import Loss, LossTerm, example_weights
from open_seq2seq.parts.sample_values import MuLaw


class WavenetLoss(Loss):
    """Mean cross-entropy of the quantised samples that have a full receptive field before them.

    ``decoder_output`` has ``logits`` ``[batch, samples', channels]`` for the last ``samples'`` samples: those of the
    levels, or the parameters of mixtures. The ``target_tensors`` are audio ``[batch, samples]`` and its lengths
    ``[batch]``.
    """

    unit = "sample"

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Loss.get_optional_params(),
            "samples": Param(object, None, "What the encoder predicts; set from the encoder. None: the levels of the "
                             "mu-law.", derived=True),
        }

    def _compute_loss(self, input_dict: dict[str, Any]) -> LossTerm:
        logits = tf.cast(input_dict["decoder_output"]["logits"], tf.float32)
        audio, lengths = input_dict["target_tensors"][:2]
        first = tf.shape(audio)[1] - tf.shape(logits)[1]
        samples = self.params["samples"] or MuLaw(logits.shape[-1])
        mask = tf.sequence_mask(lengths, tf.shape(audio)[1], tf.float32)[:, first:]
        mask *= example_weights(input_dict)[:, tf.newaxis]
        errors = samples.errors(logits, audio[:, first:])
        return LossTerm(tf.reduce_sum(errors * mask), tf.reduce_sum(mask), unit="sample")
