"""Receptive fields, against which outputs change when a frame does."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.parts.component import creating_variables
from open_seq2seq.parts.conv_blocks.convolution import Convolution1D, Window, field_of

STACKS = {
    "same": [Window(5), Window(4), Window(1)],
    "strided": [Window(11, 2), Window(3, 3), Window(6)],
    "dilated": [Window(5, 1, 3), Window(4, 2)],
    "valid": [Window(5, 2, 1, "VALID"), Window(3, 1, 2, "VALID")],
    "causal": [Window(5, 1, 1, "CAUSAL"), Window(3, 1, 2, "CAUSAL")],
    "mixed": [Window(5, 4), Window(5, 1, 1, "CAUSAL"), Window(4, 2, 1, "VALID"), Window(7)],
}


@pytest.mark.parametrize("name", STACKS)
def test_an_output_depends_on_these_frames_and_no_others(name: str):
    windows, frames = STACKS[name], 96
    with creating_variables(0):
        layers = [Convolution1D(1, 1, window, "ones") for window in windows]
    field = field_of(windows)
    touched: dict[int, list[int]] = {}
    for frame in range(frames):
        x = tf.one_hot([frame], frames)[:, :, tf.newaxis]
        for layer in layers:
            x = layer(x)
        for output in np.nonzero(x[0, :, 0].numpy())[0]:
            touched.setdefault(int(output), []).append(frame)
    for output, found in touched.items():
        first, last = output * field.stride - field.before, output * field.stride + field.behind
        assert (min(found), max(found)) == (max(first, 0), min(last, frames - 1))


@pytest.mark.parametrize("name", STACKS)
def test_the_least_frames_that_make_an_output(name: str):
    windows = STACKS[name]
    least = field_of(windows).least

    def outputs(frames: int) -> int:
        for window in windows:
            frames = window.outputs(frames)
        return frames

    assert outputs(least) == 1 and (least == 1 or outputs(least - 1) == 0)
