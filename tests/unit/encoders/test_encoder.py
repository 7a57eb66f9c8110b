"""What encoders tell of their outputs' lengths."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.conv_blocks.convolution import Window

FRAMES = np.array([0, 5, 12, 13])


class Bare(Encoder):
    def __init__(self) -> None:
        """No parameters are asked for."""


def test_lengths_stay_where_nothing_is_said():
    assert Bare().time_stride == 1
    assert Bare().output_lengths(FRAMES).tolist() == FRAMES.tolist()


def test_a_stride_may_be_assigned():
    encoder = Bare()
    encoder.time_stride = 4
    assert encoder.time_stride == 4 and encoder.output_lengths(FRAMES).tolist() == [0, 2, 3, 4]


@pytest.mark.parametrize(("padding", "expected"), [("SAME", [0, 2, 3, 4]), ("VALID", [0, 0, 2, 2])])
def test_windows_tell_both(padding, expected):
    class Windowed(Bare):
        @property
        def time_windows(self) -> list[Window]:
            return [Window(3, 2, padding=padding), Window(3, 1, padding=padding), Window(1, 2, padding=padding)]

    assert Windowed().time_stride == 4 and Windowed().output_lengths(FRAMES).tolist() == expected
