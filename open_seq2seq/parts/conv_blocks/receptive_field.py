"""Which frames of the input an output of several convolutions is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from open_seq2seq.parts.conv_blocks.convolution import Window


class ReceptiveField(NamedTuple):
    """Output ``o`` is made of the frames from ``o · stride - before`` to ``o · stride + behind``, and of no others.

    Attributes:
      before: in frames; infinite where it is everything that came before.
      behind: in frames.
      stride: frames from one output to the next.
      least: frames that an utterance must have to make an output at all.
    """

    before: float
    behind: int
    stride: int
    least: int


def field_of(windows: Sequence[Window]) -> ReceptiveField:
    """Returns the receptive field of layers, the first one first."""
    first = last = 0
    stride = least = 1
    for window in reversed(windows):
        first = first * window.stride - window.before
        last = last * window.stride - window.before + window.span - 1
        least = (least - 1) * window.stride + (window.span if window.padding == "VALID" else 1)
        stride *= window.stride
    return ReceptiveField(-first, last, stride, least)
