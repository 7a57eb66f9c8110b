"""The loss of connectionist temporal classification."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.losses.loss import Loss, LossTerm, example_weights
from open_seq2seq.parts.ctc import ctc_loss
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.utils.errors import ConfigError


class CTCLoss(Loss):
    """Negative log probability of the labels, averaged over utterances (Graves et al. 2006).

    ``decoder_output`` has ``logits`` ``[batch, time, vocabulary]``, the blank last, and ``src_length`` ``[batch]`` in
    frames; ``target_tensors`` are ids ``[batch, label_time]`` and lengths ``[batch]``. Computed in FP32.

    A label that needs more frames than there are (its length, and a blank between equal neighbours) has probability 0.
    With ``mask_nan`` such an utterance, and one with NaN in its logits, adds 0 to the loss and to the gradient, but
    counts in the mean. A second term, ``masked``, of weight 0, counts them.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Loss.get_optional_params(),
            "mask_nan": Param(bool, True, "Whether utterances without a finite loss (a label longer than its frames) "
                              "are left out; if not, they make the loss infinite, and the update is skipped."),
            "tgt_vocab_size": Param(int, None, "Number of symbols, the blank included; set from the data layer.",
                                    "symbols", derived=True, minimum=1),
            "batch_size": Param(int, None, "Set by the model; has no effect.", "utterances", derived=True, minimum=1),
        }

    def _compute_loss(self, input_dict: dict[str, Any]) -> list[LossTerm]:
        decoded = input_dict["decoder_output"]
        logits, lengths = decoded["logits"], lengths_of(decoded, "the decoder")
        labels, label_lengths = (tf.cast(tensor, tf.int32) for tensor in input_dict["target_tensors"][:2])
        vocab_size = self.params["tgt_vocab_size"]
        if vocab_size is not None and logits.shape[-1] != vocab_size:
            raise ConfigError([f"'{self.params_path}/tgt_vocab_size' is {vocab_size}, but the decoder's logits have "
                               f"{logits.shape[-1]} columns: give both the alphabet's size and one for the blank."])
        lengths = tf.minimum(tf.cast(lengths, tf.int32), tf.shape(logits)[1])
        examples = example_weights(input_dict)
        losses = ctc_loss(logits, labels, label_lengths, lengths)
        left_out = tf.zeros_like(examples)
        if self.params["mask_nan"]:
            finite = tf.math.is_finite(losses)
            losses, left_out = tf.where(finite, losses, 0.0), tf.where(finite, 0.0, examples)
        losses = tf.where(examples > 0.0, losses, 0.0)
        utterances = tf.reduce_sum(examples)
        return [LossTerm(tf.reduce_sum(losses), utterances, unit="utterance"),
                LossTerm(tf.reduce_sum(left_out), utterances, 0.0, "utterance", "masked")]
