"""The base of decoders."""

from __future__ import annotations

from typing import Any

from open_seq2seq.parts.component import Component
from open_seq2seq.parts.observation import observe


class Decoder(Component):
    """Base of decoders: subclasses implement ``_decode``.

    Attributes:
      tells_times: whether ``outputs`` say of each symbol where it begins and ends, and how sure it is, as those of
        ``FullyConnectedCTCDecoder`` do.
    """

    tells_times = False

    def decode(self, input_dict: dict[str, Any], training: bool = False) -> dict[str, Any]:
        """Decodes a batch: with ``target_tensors`` by teacher forcing, without them freely.

        Args:
          input_dict: ``encoder_output`` (what the encoder returned) and, when the loss
            is wanted, ``target_tensors``: ``[values, lengths, …]``.
          training: whether dropout and the like are on (``self.training`` in the body).

        Returns:
          A dict with ``logits`` (for the loss) and ``outputs``, a list of tensors for
          the task, or None.
        """
        with self.in_training(training):
            result = self._decode(input_dict)
        observe(result.get("logits"), "logits", self)
        return result

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError("A decoder implements _decode(input_dict).")
