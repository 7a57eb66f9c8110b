"""The base of encoders."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from open_seq2seq.parts.component import Component
from open_seq2seq.parts.conv_blocks.convolution import Window
from open_seq2seq.parts.conv_blocks.receptive_field import ReceptiveField
from open_seq2seq.parts.observation import observe


class Encoder(Component):
    """Base of encoders: subclasses implement ``_encode``."""

    def encode(self, input_dict: dict[str, Any], training: bool = False) -> dict[str, Any]:
        """Encodes a batch.

        Args:
          input_dict: ``source_tensors``: a list ``[values, lengths, …]``.
          training: whether dropout and the like are on (``self.training`` in the body).

        Returns:
          A dict with ``outputs`` ``[batch, time, hidden]`` and ``outputs_length``
          ``[batch]`` for sequence encoders, and whatever the decoder needs besides.
        """
        with self.in_training(training):
            result = self._encode(input_dict)
        observe(result.get("outputs"), "outputs", self)
        return result

    @property
    def time_windows(self) -> Sequence[Window]:
        """The windows over time that an utterance passes through, the first one first; none if its length stays."""
        return ()

    @functools.cached_property  # so that encoders without windows may assign it
    def time_stride(self) -> int:
        """Frames of the input from one output to the next."""
        return math.prod(window.stride for window in self.time_windows)

    def output_lengths(self, lengths: Any) -> Any:
        """Returns how many outputs so many frames make: a number, or an array or int32 tensor of them."""
        if not self.time_windows:
            return -(-lengths // self.time_stride)
        for window in self.time_windows:
            lengths = window.outputs(lengths)
        return lengths

    def receptive_field(self) -> ReceptiveField | None:
        """Returns which frames an output is made of; None where it is the whole utterance, which cannot be streamed."""
        return None

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError("An encoder implements _encode(input_dict).")
