"""A decoder that passes the encoder's output on, for models whose encoder computes the logits."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.utils.errors import ConfigError


class FakeDecoder(Decoder):
    """Passes the encoder's output on, with ``outputs`` renamed to ``outputs_of_encoder``.

    ``outputs`` of the decoder are the likeliest ids or classes.
    """

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        encoded = dict(input_dict["encoder_output"])
        if encoded.get("logits") is None:
            raise ConfigError(["'decoder' is FakeDecoder, but the encoder computes no logits: choose a decoder that "
                               "does, or an encoder such as LMEncoder."])
        return {**encoded, "outputs_of_encoder": encoded.get("outputs"),
                "outputs": [tf.argmax(encoded["logits"], -1, tf.int32)]}
