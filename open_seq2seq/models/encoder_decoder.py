"""Models that consist of an encoder, a decoder and a loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.losses.loss import Loss, LossTerm
from open_seq2seq.models.model import Model
from open_seq2seq.models.part import Part
from open_seq2seq.utils.errors import ConfigError


class EncoderDecoderModel(Model):
    """A model whose forward pass runs an encoder, a decoder and, in training and evaluation, a loss."""

    encoder: Encoder
    decoder: Decoder
    loss: Loss

    @staticmethod
    def get_parts() -> dict[str, Part]:
        return {
            **Model.get_parts(),
            "encoder": Part(Encoder),
            "decoder": Part(Decoder),
            "loss": Part(Loss, "Loss class; needed for training and evaluation.", optional=True, follows_dtype=False,
                         inherits=False, modes=("train", "eval")),
        }

    def loss_terms(self, batch: dict[str, Any], training: bool) -> tuple[list[LossTerm], dict[str, Any]]:
        encoded = self.encoder.encode(encoder_input(batch), training)
        decoded = self.decoder.decode(
            {"encoder_output": encoded, "target_tensors": batch["target_tensors"]}, training)
        terms = loss_of(self, decoded, batch["target_tensors"], batch["ids"])
        return [*terms, *self.penalties(encoded, batch)] if training else terms, decoded

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        return self.prediction_tensors(decoded_freely(self, batch))

    def prediction_tensors(self, decoded: dict[str, Any]) -> list[tf.Tensor]:
        """Returns the tensors that evaluation and inference need; by default ``outputs``.

        Args:
          decoded: the decoder's output; see ``parts.keys.DecoderOutput``.
        """
        return list(decoded["outputs"])


def loss_of(model: Any, output: dict[str, Any], targets: Any, ids: tf.Tensor) -> list[LossTerm]:
    """Returns the terms of a model's part ``loss``, whose input has the decoder's output, targets and ids of examples.

    Raises:
      ConfigError: the model has no such part.
    """
    if model.params["loss"] is None:
        raise ConfigError(["'loss' is missing: training and evaluation need one."])
    terms: list[LossTerm] = model.loss.compute_loss({"decoder_output": output, "target_tensors": targets, "ids": ids})
    return terms


def decoded_freely(model: Any, batch: dict[str, Any], reads: Sequence[str] = ("ids",)) -> dict[str, Any]:
    """Returns the output of a model's decoder without targets; see ``parts.keys.DecoderOutput``.

    Args:
      model: a model with an encoder and a decoder.
      batch: a batch of tensors.
      reads: names of the arrays of the batch, besides the sources, that the decoder reads.
    """
    encoded = model.encoder.encode(encoder_input(batch), False)
    return model.decoder.decode({"encoder_output": encoded, **{name: batch.get(name) for name in reads}}, False)


def encoder_input(batch: dict[str, Any]) -> dict[str, Any]:
    """Returns the input of the encoder, which is all of a batch but its targets; see ``parts.keys.EncoderInput``."""
    return {"ids": None, **{name: value for name, value in batch.items() if name != "target_tensors"}}
