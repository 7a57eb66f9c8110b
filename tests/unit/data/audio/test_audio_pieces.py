"""Pieces of audio are converted as the whole is."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.data.audio.audio_files import AudioError, converted
from open_seq2seq.data.audio.features import AudioPieces


def in_pieces(audio: np.ndarray, rate: int, sample_freq: int, seed: int = 0) -> np.ndarray:
    rng, pieces, begin = np.random.default_rng(seed), AudioPieces(rate, sample_freq), 0
    found = []
    while begin < len(audio):
        length = int(rng.integers(0, 3000))
        found.append(pieces.convert(audio[begin:begin + length]))
        begin += length
    return np.concatenate([*found, pieces.rest()])


@pytest.mark.parametrize("rates", [(8000, 8000), (8000, 16000), (44100, 16000), (48000, 8000), (11025, 8000)])
@pytest.mark.parametrize("length", [1, 7, 20_001])
def test_together_they_are_the_whole(rates: tuple[int, int], length: int):
    audio = np.random.default_rng(1).normal(0, 0.1, (length, 2)).astype(np.float32)
    for heard in (audio, audio[:, 0], (audio * 32767).astype(np.int16)):
        np.testing.assert_array_equal(in_pieces(heard, *rates), converted(heard, *rates))


def test_nothing_gives_nothing():
    pieces = AudioPieces(44100, 16000)
    assert not len(pieces.convert(np.zeros(0, np.float32))) and not len(pieces.rest())


@pytest.mark.parametrize(("piece", "message"), [
    (np.array([0.1, np.nan], np.float32), "1 NaN or infinite sample"),
    (np.zeros([2, 2, 2], np.float32), r"\[2, 2, 2\]"), (np.float32(0.1), r"\[\]"),
])
def test_what_is_no_audio_is_refused(piece: np.ndarray, message: str):
    with pytest.raises(AudioError, match=message):
        AudioPieces(8000, 16000).convert(piece)


def test_channels_of_opposite_phase_are_averaged():
    """A chunk says little about the recording."""
    sound = np.random.default_rng(0).normal(size=100).astype(np.float32)
    np.testing.assert_allclose(AudioPieces(8000, 8000).convert(np.stack([sound, -0.9 * sound], axis=1)), 0.05 * sound,
                               atol=1e-6)


@pytest.mark.parametrize("rate", [0, -8000, 10, 10_000_000])
def test_impossible_rates_are_refused(rate: int):
    with pytest.raises(AudioError, match="must have a sampling rate from 1,000 to 768,000 Hz"):
        AudioPieces(rate, 16000)
