"""The base of encoders."""

from __future__ import annotations

from typing import Any

from open_seq2seq.parts.component import Component
from open_seq2seq.parts.keys import with_lengths
from open_seq2seq.parts.observation import observe


class Encoder(Component):
    """Base of encoders: subclasses implement ``_encode``."""

    def encode(self, input_dict: dict[str, Any], training: bool = False) -> dict[str, Any]:
        """Encodes a batch.

        Args:
          input_dict: ``source_tensors``: a list ``[values, lengths, …]``.
          training: whether dropout and the like are on (``self.training`` in the body).

        Returns:
          A dict with keys of ``parts.keys.EncoderOutput``: ``outputs`` ``[batch, time, hidden]`` and
          ``outputs_length`` ``[batch]`` for sequence encoders, and whatever else the decoder needs. Lengths are also
          there under their aliases, whichever name the body used.
        """
        with self.in_training(training):
            result = with_lengths(self._encode(input_dict))
        observe(result.get("outputs"), "outputs", self)
        return result

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError("An encoder implements _encode(input_dict).")
