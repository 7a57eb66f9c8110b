"""Loss of connectionist temporal classification (CTC), alone and of joint CTC-attention models."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.losses.loss import Loss, LossTerm, example_weights
from open_seq2seq.losses.sequence_loss import BasicSequenceLoss
from open_seq2seq.parts.ctc import ctc_loss
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.utils.errors import ConfigError


class CTCLoss(Loss):
    """Negative log probability of the labels, averaged over utterances and computed in FP32.

    See Graves et al. 2006, "Connectionist Temporal Classification", https://doi.org/10.1145/1143844.1143891.

    ``decoder_output`` has ``logits`` ``[batch, time, vocabulary]``, where the blank is the last symbol, and
    ``src_length`` ``[batch]`` in frames; ``target_tensors`` are ids ``[batch, label_time]`` and lengths ``[batch]`` in
    symbols.

    Labels need one frame per symbol, plus one frame for the blank between two equal neighbours. If an utterance has
    fewer frames, its labels have probability 0. With ``mask_nan``, such utterances, and those with NaN in the logits,
    add 0 to the loss and gradient, but still count in the mean. A second loss term, ``masked``, contains the number of
    these utterances as its ``sum``; its weight is 0, so it does not affect training.
    """

    unit = "utterance"

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Loss.get_optional_params(),
            "mask_nan": Param(bool, True, "Whether to ignore utterances without a finite loss, such as those with "
                              "fewer frames than labels. If False, they make the loss infinite or NaN, and the update "
                              "is skipped."),
            "tgt_vocab_size": Param(int, None, "Number of symbols, including the blank; set from the data layer.",
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
                               f"{logits.shape[-1]} columns: set both to the size of the alphabet plus 1 for the "
                               "blank."])
        lengths = tf.minimum(tf.cast(lengths, tf.int32), tf.shape(logits)[1])
        examples = example_weights(input_dict)
        losses = ctc_loss(logits, labels, label_lengths, lengths)
        left_out = tf.zeros_like(examples)
        if self.params["mask_nan"]:
            finite = tf.math.is_finite(losses)
            losses, left_out = tf.where(finite, losses, 0.0), tf.where(finite, 0.0, examples)
        losses = tf.where(examples > 0.0, losses, 0.0)
        utterances = tf.reduce_sum(examples)
        return [LossTerm(tf.reduce_sum(losses), utterances, unit=self.unit),
                LossTerm(tf.reduce_sum(left_out), utterances, 0.0, self.unit, "masked")]


class MultiTaskCTCEntropyLoss(Loss):
    """(1 - λ) · cross-entropy + λ · CTC loss (Kim et al. 2016, https://arxiv.org/abs/1609.06773).

    ``decoder_output`` is the output of a ``JointCTCAttentionDecoder``: that of the attention decoder, with the CTC
    decoder's output as ``ctc_output``. ``target_tensors`` are ids ``[batch, time]`` and lengths ``[batch]``. Targets
    end with an end symbol, which CTC does not use.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Loss.get_required_params(),
            "ctc_loss_params": Param(dict, doc="Parameters of CTCLoss."),
            "seq_loss_params": Param(dict, doc="Parameters of BasicSequenceLoss."),
            "lambda_value": Param(float, doc="Weight λ of the CTC loss, from 0 to 1.", minimum=0.0, maximum=1.0),
            "tgt_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="symbols", derived=True,
                                    minimum=2),
            "batch_size": Param(int, doc="Set by the model; has no effect.",
                                unit="utterances", derived=True, minimum=1),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "loss", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params = self.params
        sizes = {"batch_size": params["batch_size"]}
        self.sequence = BasicSequenceLoss(
            {"tgt_vocab_size": params["tgt_vocab_size"], **sizes, **params["seq_loss_params"]}, model, "seq_loss", mode)
        # The CTC decoder's ids lack the start and end symbols, but include the blank.
        self.ctc = CTCLoss(
            {"tgt_vocab_size": params["tgt_vocab_size"] - 1, **sizes, **params["ctc_loss_params"]}, model, "ctc_loss",
            mode)

    @property
    def offsets_targets(self) -> bool:
        """Whether the cross-entropy compares position t of the logits with target t + 1."""
        return self.sequence.offsets_targets

    def _compute_loss(self, input_dict: dict[str, Any]) -> list[LossTerm]:
        ids, lengths = input_dict["target_tensors"][:2]
        without_end = tf.maximum(lengths - 1, 0)  # an empty row has no end symbol
        by_ctc = self.ctc.compute_loss({
            **input_dict, "decoder_output": input_dict["decoder_output"]["ctc_output"],
            "target_tensors": [ids, without_end]})
        by_attention = self.sequence.compute_loss(input_dict)
        weight = self.params["lambda_value"]
        return [*(term._replace(weight=(1.0 - weight) * term.weight, name="attention") for term in by_attention),
                *(term._replace(weight=weight * term.weight, name="ctc" if term.name == "loss" else term.name)
                  for term in by_ctc)]
