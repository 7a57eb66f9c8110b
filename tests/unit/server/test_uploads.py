"""Pictures in the bodies of requests are seen as those of files; ``test_app.py`` has what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.server.uploads import picture_of


@pytest.mark.parametrize("channels", [2, 4])
def test_transparent_pictures_are_put_on_white(channels):
    pixels = np.zeros([1, 2, channels], np.uint8)
    pixels[0, 1, -1] = 255  # the first pixel is transparent, the second one black
    assert picture_of(tf.io.encode_png(pixels).numpy()).tolist() == [[[255] * 3, [0] * 3]]


def test_grey_pictures_have_three_channels():
    pixels = np.array([[[7], [200]]], np.uint8)
    assert picture_of(tf.io.encode_png(pixels).numpy()).tolist() == [[[7] * 3, [200] * 3]]
