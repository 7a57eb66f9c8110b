"""Loss of joint CTC-attention models."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.losses.ctc_loss import CTCLoss
from open_seq2seq.losses.loss import Loss, LossTerm
from open_seq2seq.losses.sequence_loss import BasicSequenceLoss


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
