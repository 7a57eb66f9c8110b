"""Receptive field of a stack of convolutions over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from open_seq2seq.parts.conv_blocks.convolution import Window


class ReceptiveField(NamedTuple):
    """Frames that an output depends on: output ``o`` needs frames ``o · stride - before`` to ``o · stride + behind``.

    Attributes:
      before: number of frames before frame ``o · stride``; infinite if outputs depend on all earlier frames.
      behind: number of frames after frame ``o · stride``.
      stride: step between consecutive outputs, in frames.
      least: smallest number of frames that gives an output.
    """

    before: float
    behind: int
    stride: int
    least: int


def field_of(windows: Sequence[Window]) -> ReceptiveField:
    """Returns the receptive field of stacked convolutions with these windows, listed from the first layer up."""
    first = last = 0
    stride = least = 1
    for window in reversed(windows):
        first = first * window.stride - window.before
        last = last * window.stride - window.before + window.span - 1
        least = (least - 1) * window.stride + (window.span if window.padding == "VALID" else 1)
        stride *= window.stride
    return ReceptiveField(-first, last, stride, least)
