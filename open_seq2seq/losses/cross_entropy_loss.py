"""Cross-entropy for the classification of whole examples."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.losses.loss import Loss, LossTerm, example_weights
from open_seq2seq.parts.cross_entropy import SoftTargets
from open_seq2seq.utils.errors import ConfigError


class CrossEntropyLoss(Loss):
    """Cross-entropy between correct classes and logits, averaged over examples and computed in FP32.

    ``decoder_output["logits"]`` are ``[batch, classes]``. The first of the ``target_tensors`` contains either the
    indices of the correct classes, ``[batch]``, or the probabilities of the classes, ``[batch, classes]``, as with
    one-hot labels or mixup. Label smoothing is that of Szegedy et al. 2016, https://arxiv.org/abs/1512.00567, §7, but
    the probability taken from the label is divided among the other classes only.
    """

    unit = "example"

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Loss.get_optional_params(),
            "label_smoothing": Param(float, 0.0, "Label smoothing: total probability of all classes other than the "
                                     "label, in equal shares; 0 disables it.", minimum=0.0, below=1.0),
        }

    def _compute_loss(self, input_dict: dict[str, Any]) -> LossTerm:
        logits = tf.cast(input_dict["decoder_output"]["logits"], tf.float32)
        targets = self._targets(input_dict["target_tensors"][0], logits.shape[-1])
        losses = tf.nn.softmax_cross_entropy_with_logits(targets, logits)
        examples = example_weights(input_dict)
        losses = tf.where(examples > 0.0, losses, 0.0)
        return LossTerm(tf.reduce_sum(losses), tf.reduce_sum(examples), unit=self.unit)

    def _targets(self, targets: tf.Tensor, num_classes: int) -> tf.Tensor:
        """Returns the smoothed probabilities of the classes, FP32 ``[batch, num_classes]``.

        Classes that the targets lack have probability 0 before smoothing.

        Raises:
          ConfigError: the targets have more classes than the logits, or ``label_smoothing`` is set
            but there is only one class.
        """
        if targets.dtype.is_integer and targets.shape.rank == 1:
            targets = tf.one_hot(targets, num_classes)
        missing = num_classes - targets.shape[-1]
        if missing < 0:
            raise ConfigError([f"The data layer's labels have {targets.shape[-1]} classes, but the decoder's logits "
                               f"have only {num_classes}: set the same number of classes for both."])
        targets = tf.pad(tf.cast(targets, tf.float32), [[0, 0], [0, missing]])
        if not self.params["label_smoothing"]:
            return targets
        if num_classes < 2:
            raise ConfigError([f"'{self.params_path}/label_smoothing' needs at least two classes: set it to 0."])
        soft = SoftTargets.of(self.params["label_smoothing"], num_classes)
        return targets * (soft.on - soft.off) + soft.off
