"""Base class of encoders."""

from __future__ import annotations

from typing import Any

from open_seq2seq.parts.component import Component
from open_seq2seq.parts.keys import with_lengths
from open_seq2seq.parts.observation import observe


class Encoder(Component):
    """Base of encoders: subclasses implement ``_encode``.

    Attributes:
      reads_all_sources: whether the encoder reads all sources if examples have several; if not, it reads the first.
      aligns_outputs: whether there is exactly one output for each id of the first source, in the same order.
    """

    reads_all_sources = False
    aligns_outputs = True

    def encode(self, input_dict: dict[str, Any], training: bool = False) -> dict[str, Any]:
        """Encodes a batch.

        Args:
          input_dict: a dict with ``source_tensors``, a list ``[values, lengths, …]``; see ``parts.keys.EncoderInput``.
          training: whether to apply dropout and similar operations. ``_encode`` reads it as ``self.training``.

        Returns:
          A dict with keys of ``parts.keys.EncoderOutput``: for sequence encoders, ``outputs`` ``[batch, time, hidden]``
          and ``outputs_length`` ``[batch]``, and anything else that the decoder needs. The lengths are stored under
          all of their names, whichever name ``_encode`` uses; see ``parts.keys.with_lengths``.
        """
        with self.in_training(training):
            result = with_lengths(self._encode(input_dict))
        observe(result.get("outputs"), "outputs", self)
        return result

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Encodes a batch; each subclass implements this.

        Args:
          input_dict: see ``encode``. ``self.training`` says whether to apply dropout.

        Returns:
          See ``encode``: ``outputs`` in ``self.compute_dtype``, and the lengths under any one of their names.
        """
        raise NotImplementedError("An encoder must implement _encode(input_dict).")
