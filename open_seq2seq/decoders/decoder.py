"""Base class of decoders, and the decoder of models whose encoder has the outputs."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.component import Component
from open_seq2seq.parts.observation import observe
from open_seq2seq.utils.errors import ConfigError


class Decoder(Component):
    """Base of decoders: subclasses implement ``_decode``.

    Attributes:
      tells_times: whether ``outputs`` contain the start, end and confidence of each symbol, as in
        ``FullyConnectedCTCDecoder``.
    """

    tells_times = False

    def decode(self, input_dict: dict[str, Any], training: bool = False) -> dict[str, Any]:
        """Decodes a batch; autoregressive decoders use teacher forcing if there are ``target_tensors``, else a search.

        Args:
          input_dict: a dict with ``encoder_output`` (the encoder's result) and, if a loss will be computed,
            ``target_tensors`` (``[values, lengths, …]``); see ``parts.keys.DecoderInput`` for other keys.
          training: whether to apply dropout and similar operations. ``_decode`` reads it as ``self.training``.

        Returns:
          A dict with keys of ``parts.keys.DecoderOutput``: ``logits`` for the loss, None after a search, and
          ``outputs``, a list of tensors such as ids and lengths, or None.
        """
        with self.in_training(training):
            result = self._decode(input_dict)
        observe(result.get("logits"), "logits", self)
        return result

    def _encoder_size(self, name: str) -> tuple[Any, list[str]]:
        """Returns a size that a parameter gives, by default the encoder's output_size; and a sentence if both lack."""
        size = self.params[name] or getattr(getattr(self.model, "encoder", None), "output_size", None)
        return size, [] if size is not None else [
            f"'{self.params_path}/{name}' is missing: set it, because the encoder has no output_size."]

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError("A decoder must implement _decode(input_dict).")


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
