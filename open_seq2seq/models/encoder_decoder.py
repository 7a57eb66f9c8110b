"""Models made of an encoder, a decoder and a loss."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.losses.loss import Loss, LossTerm
from open_seq2seq.models.model import Model


class EncoderDecoderModel(Model):
    """A model whose forward pass is encoder, decoder, loss."""

    encoder: Encoder
    decoder: Decoder
    loss: Loss

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Model.get_required_params(),
            "encoder": Param((type, str), doc="Encoder class."),
            "decoder": Param((type, str), doc="Decoder class."),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Model.get_optional_params(),
            "loss": Param((type, str, type(None)), None, "Loss class; needed for training and evaluation."),
            "encoder_params": Param(dict, {}, "Parameters of the encoder."),
            "decoder_params": Param(dict, {}, "Parameters of the decoder."),
            "loss_params": Param(dict, {}, "Parameters of the loss."),
        }

    @property
    def components(self) -> tuple[str, ...]:
        with_loss = self.params["loss"] is not None and self.mode in ("train", "eval")
        return ("encoder", "decoder", "loss") if with_loss else ("encoder", "decoder")

    def loss_terms(self, batch: dict[str, Any], training: bool) -> tuple[list[LossTerm], dict[str, Any]]:
        encoded = self.encoder.encode({"source_tensors": batch["source_tensors"]}, training)
        decoded = self.decoder.decode(
            {"encoder_output": encoded, "target_tensors": batch["target_tensors"]}, training)
        terms = self.loss.compute_loss(
            {"decoder_output": decoded, "target_tensors": batch["target_tensors"], "ids": batch["ids"]})
        return terms, decoded

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        encoded = self.encoder.encode({"source_tensors": batch["source_tensors"]}, False)
        inputs = {"encoder_output": encoded, "ids": batch.get("ids")}
        return self.prediction_tensors(self.decoder.decode(inputs, False))

    def prediction_tensors(self, decoded: dict[str, Any]) -> list[tf.Tensor]:
        """Picks what evaluation and inference need from the decoder's output."""
        return list(decoded["outputs"])
