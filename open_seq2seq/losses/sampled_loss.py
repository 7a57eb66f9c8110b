"""Cross-entropy of language models that samples the vocabulary in training."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.losses.sequence_loss import BasicSequenceLoss
from open_seq2seq.parts.output_layer import OutputProjection
from open_seq2seq.parts.sampled_softmax import sampled_cross_entropy
from open_seq2seq.utils.errors import ConfigError


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
