"""Base class of speech encoders, and the interface to their windows over time, stride and receptive field."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.conv_blocks.convolution import ReceptiveField, Window


class TimeWindows:
    """Mixin for encoders that apply windows over time, such as convolutions.

    A subclass implements ``time_windows``, or assigns ``self.time_stride``; output lengths are computed from either. An
    encoder that can be streamed also implements ``receptive_field``.
    """

    @property
    def time_windows(self) -> Sequence[Window]:
        """The windows over time, in the order of the layers; empty if the encoder does not change the length."""
        return ()

    @functools.cached_property  # can be assigned, unlike a property; encoders without windows do so
    def time_stride(self) -> int:
        """The step between consecutive outputs, in input frames."""
        return math.prod(window.stride for window in self.time_windows)

    def output_lengths(self, lengths: Any) -> Any:
        """Returns the numbers of outputs for inputs of these lengths.

        Args:
          lengths: numbers of input frames: an integer, an integer array or an int32 tensor of any shape.

        Returns:
          The numbers of outputs, of the same type and shape.
        """
        if not self.time_windows:
            return (lengths + self.time_stride - 1) // self.time_stride
        for window in self.time_windows:
            lengths = window.outputs(lengths)
        return lengths

    def receptive_field(self) -> ReceptiveField | None:
        """Returns the receptive field of an output; None if it is the whole utterance, which prevents streaming."""
        return None


class SpeechEncoder(TimeWindows, Encoder):
    """Base of speech encoders: subclasses implement ``_encode`` and ``time_windows``."""


class _Attributes(TimeWindows):
    """Adapter for an encoder without the mixin ``TimeWindows``; see ``time_windows_of``."""

    def __init__(self, encoder: object) -> None:
        self._encoder = encoder
        stride = getattr(encoder, "time_stride", None)
        if stride is not None:
            self.time_stride = stride

    @property
    def time_windows(self) -> Sequence[Window]:
        return getattr(self._encoder, "time_windows", ())

    def output_lengths(self, lengths: Any) -> Any:
        own = getattr(self._encoder, "output_lengths", None)
        return super().output_lengths(lengths) if own is None else own(lengths)

    def receptive_field(self) -> ReceptiveField | None:
        own = getattr(self._encoder, "receptive_field", None)
        return None if own is None else own()


def time_windows_of(encoder: object) -> TimeWindows:
    """Returns the encoder itself if it is a ``TimeWindows``, otherwise an adapter.

    The adapter uses the encoder's own ``time_windows``, ``time_stride``, ``output_lengths`` and ``receptive_field``, as
    far as they exist. An encoder that has none of them is assumed to keep the length of its input, and cannot be
    streamed.
    """
    return encoder if isinstance(encoder, TimeWindows) else _Attributes(encoder)
