"""What encoders of speech tell of time: windows, stride, lengths, and which frames an output is made of."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.conv_blocks.convolution import Window
from open_seq2seq.parts.conv_blocks.receptive_field import ReceptiveField


class TimeWindows:
    """Mixin of encoders that utterances pass through by windows over time.

    A subclass gives its ``time_windows``, or else assigns ``self.time_stride``. All else follows, but for
    ``receptive_field``, which says that the encoder can be streamed.
    """

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


class SpeechEncoder(TimeWindows, Encoder):
    """Base of encoders of speech: subclasses implement ``_encode`` and give ``time_windows``."""


class _Told(TimeWindows):
    """What an encoder without the mixin tells by attributes of the same names; a stride of 1 where it tells nothing."""

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
    """Returns what an encoder tells of time: itself if it has the mixin, else what attributes of the same names say.

    Args:
      encoder: of any class. One that has neither keeps the length of its input, and cannot be streamed.
    """
    return encoder if isinstance(encoder, TimeWindows) else _Told(encoder)
