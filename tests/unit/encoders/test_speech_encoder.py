"""What encoders of speech tell of their outputs' lengths, with the mixin and, as before there was one, without."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.encoders import Encoder, SpeechEncoder
from open_seq2seq.encoders.speech_encoder import TimeWindows, time_windows_of
from open_seq2seq.parts.conv_blocks.convolution import ReceptiveField, Window, field_of

FRAMES = np.array([0, 5, 12, 13])
BASES = pytest.mark.parametrize("base", [SpeechEncoder, Encoder])


def bare(base: type[Encoder]) -> type[Encoder]:
    class Bare(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            """No parameters are asked for."""

    return Bare


@BASES
def test_lengths_stay_where_nothing_is_said(base):
    told = time_windows_of(bare(base)())
    assert told.time_stride == 1 and told.receptive_field() is None
    assert told.output_lengths(FRAMES).tolist() == FRAMES.tolist()


@BASES
def test_a_stride_may_be_assigned(base):
    encoder = bare(base)()
    encoder.time_stride = 4
    told = time_windows_of(encoder)
    assert told.time_stride == 4 and told.output_lengths(FRAMES).tolist() == [0, 2, 3, 4]


@BASES
@pytest.mark.parametrize(("padding", "expected"), [("SAME", [0, 2, 3, 4]), ("VALID", [0, 0, 2, 2])])
def test_windows_tell_both(base, padding, expected):
    class Windowed(bare(base)):  # type: ignore[misc]
        @property
        def time_windows(self) -> list[Window]:
            return [Window(3, 2, padding=padding), Window(3, 1, padding=padding), Window(1, 2, padding=padding)]

    told = time_windows_of(Windowed())
    assert told.time_stride == 4 and told.output_lengths(FRAMES).tolist() == expected


@BASES
def test_an_encoder_may_say_otherwise(base):
    class Padded(bare(base)):  # type: ignore[misc]
        time_windows = (Window(3, 2),)

        def output_lengths(self, lengths):
            return lengths + 1

        def receptive_field(self) -> ReceptiveField:
            return field_of(self.time_windows)

    told = time_windows_of(Padded())
    assert told.time_stride == 2 and told.output_lengths(5) == 6 and told.receptive_field().stride == 2


def test_the_mixin_is_asked_itself():
    class Other(TimeWindows):
        time_windows = (Window(3, 3),)

    other = Other()
    assert time_windows_of(other) is other and other.time_stride == 3
