"""A decoder that passes the encoder's output on, for models whose encoder computes the logits."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.utils.errors import ConfigError


class FakeDecoder(Decoder):
    """Passes the encoder's output on, with ``outputs`` renamed to ``outputs_of_encoder``.

    The decoder's own ``outputs`` are computed from the logits: the likeliest ids ``[batch, time]`` if the logits have a
    time axis, otherwise the probabilities of the classes ``[batch, classes]``.
    """

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        encoded = dict(input_dict["encoder_output"])
        logits = encoded.get("logits")
        if logits is None and "projection" not in encoded:
            raise ConfigError(["'decoder' is FakeDecoder, but the encoder computes no logits: set 'decoder' to a "
                               "class that computes them, or 'encoder' to one such as LMEncoder."])
        result = {**encoded, "outputs_of_encoder": encoded.get("outputs"), "outputs": None}
        if logits is not None:
            result["outputs"] = [tf.argmax(logits, -1, tf.int32) if logits.shape.rank == 3 else tf.nn.softmax(logits)]
        return result
