"""Cross-entropy loss of classification."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.losses.loss import Loss, LossTerm, example_weights
from open_seq2seq.parts.cross_entropy import SoftTargets
from open_seq2seq.utils.errors import ConfigError


class CrossEntropyLoss(Loss):
    """Cross-entropy between the softmax of logits and the labels, averaged over the examples.

    ``decoder_output["logits"]`` are ``[batch, classes]``. The first of the ``target_tensors`` contains class numbers
    ``[batch]``, or probabilities of the classes ``[batch, classes]``, such as one-hot vectors.
    """

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Loss.get_optional_params(),
            "label_smoothing": Param(float, 0.0, "Label smoothing: total probability of all classes other than the "
                                     "label, in equal shares; 0 disables it.", minimum=0.0, below=1.0),
        }

    def _compute_loss(self, input_dict: dict[str, Any]) -> LossTerm:
        logits = tf.cast(input_dict["decoder_output"]["logits"], tf.float32)
        targets, classes = input_dict["target_tensors"][0], logits.shape[-1]
        if targets.shape.rank == 1:
            targets = tf.one_hot(targets, classes)
        elif targets.shape[-1] != classes:
            raise ConfigError([f"The data layer's labels have {targets.shape[-1]} classes, but the decoder's logits "
                               f"have {classes}: set the same number of classes for both."])
        soft = SoftTargets.of(self.params["label_smoothing"], classes)
        targets = soft.off + (soft.on - soft.off) * tf.cast(targets, tf.float32)
        losses = tf.nn.softmax_cross_entropy_with_logits(targets, logits)
        weights = example_weights(input_dict)
        return LossTerm(tf.reduce_sum(losses * weights), tf.reduce_sum(weights), unit="example")
