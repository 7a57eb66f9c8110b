"""The receptive field of several convolutions over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from open_seq2seq.parts.conv_blocks.convolution import Window


class ReceptiveField(NamedTuple):
    """Output ``o`` depends only on the frames from ``o · stride - before`` to ``o · stride + behind``.

    Attributes:
      before: in frames; infinite if it depends on all earlier frames.
      behind: in frames.
      stride: frames from one output to the next.
      least: least number of frames for an output.
    """

    before: float
    behind: int
    stride: int
    least: int


def field_of(windows: Sequence[Window]) -> ReceptiveField:
    """Returns the receptive field of windows in the order of the layers."""
    first = last = 0
    stride = least = 1
    for window in reversed(windows):
        first = first * window.stride - window.before
        last = last * window.stride - window.before + window.span - 1
        least = (least - 1) * window.stride + (window.span if window.padding == "VALID" else 1)
        stride *= window.stride
    return ReceptiveField(-first, last, stride, least)
