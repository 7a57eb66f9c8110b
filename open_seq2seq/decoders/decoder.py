"""Base class of decoders."""

from __future__ import annotations

from typing import Any

from open_seq2seq.parts.component import Component
from open_seq2seq.parts.observation import observe


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

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError("A decoder must implement _decode(input_dict).")
