"""Log mel spectrograms of fixed size, and the augmentation of the recordings."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from open_seq2seq.data.audio.audio_files import resampled
from open_seq2seq.data.audio.features import reflected_indices
from open_seq2seq.data.audio.filter_banks import htk_mel_filters
from open_seq2seq.data.speech2text.augmentation import Draw

_POINTS, _HOP = 1024, 256
_SMALLEST = 1e-5
_SEMITONES, _STRETCH, _NOISE_DB = 2, 0.2, (-90.0, -46.0)
_CHANGES, _NOISE, _SLICE = range(3)  # purposes of random numbers, for Draw.stream


class Changes(NamedTuple):
    """The augmentation of one recording.

    Attributes:
      pitch: factor by which frequencies are multiplied.
      length: factor by which the length is multiplied.
      noise: standard deviation of the white noise.
    """

    pitch: float = 1.0
    length: float = 1.0
    noise: float = 0.0


def draw_changes(draw: Draw) -> Changes:
    """Draws a shift of pitch by up to two semitones, a change of length by up to 20 %, and noise from -90 to -46 dB.

    Shifts are multiples of a quarter of a semitone, so that the mel filters of every shift can be cached.
    """
    random = draw.stream(_CHANGES)
    quarters = int(random.integers(-4 * _SEMITONES, 4 * _SEMITONES + 1))
    return Changes(2.0 ** (quarters / 48), random.uniform(1 - _STRETCH, 1 + _STRETCH),
                   10.0 ** (random.uniform(*_NOISE_DB) / 20))


def changed_audio(audio: np.ndarray, changes: Changes, draw: Draw) -> np.ndarray:
    """Changes the length of audio ``[samples]`` and adds noise; the pitch is changed by ``log_mel``."""
    length = max(1, round(len(audio) * changes.length))
    audio = resampled(audio, 1.0, changes.length, length)
    noise = draw.stream(_NOISE).standard_normal(length)
    return (audio + changes.noise * noise).astype(np.float32)


@functools.lru_cache(maxsize=64)
def _filters(rate: int, count: int, pitch: float) -> np.ndarray:
    return htk_mel_filters(rate, _POINTS, count, pitch).T.astype(np.float32)


def log_mel(audio: np.ndarray, rate: int, num_features: int, pitch: float = 1.0) -> np.ndarray:
    """Returns the logarithm of the power in mel filters, at least log(1e-5), FP32 ``[frames, num_features]``.

    Frames of 1,024 samples are centred on multiples of 256 samples; at its ends, the signal is reflected.

    Args:
      audio: ``[samples]``, at least one.
      rate: sampling rate in Hz.
      num_features: number of filters.
      pitch: factor by which the frequencies of the signal are multiplied.
    """
    frames = 1 + len(audio) // _HOP
    indices = reflected_indices(len(audio), _POINTS // 2, (frames - 1) * _HOP + _POINTS)
    windows = np.lib.stride_tricks.sliding_window_view(audio[indices], _POINTS)[::_HOP]
    spectrum = np.fft.rfft(windows * np.hanning(_POINTS + 1)[:-1])
    power = (spectrum.real ** 2 + spectrum.imag ** 2).astype(np.float32) @ _filters(rate, num_features, pitch)
    return np.log(np.maximum(power, _SMALLEST))


def fitted(features: np.ndarray, frames: int, draw: Draw | None) -> np.ndarray:
    """Returns features ``[frames, num_features]`` of fixed length.

    Args:
      features: ``[time, num_features]``.
      frames: number of frames of the result. Longer features are cut to a span of consecutive frames, and shorter ones
        padded with zeros on both sides.
      draw: random numbers for the position of the span; None for the span in the middle.
    """
    missing = frames - len(features)
    if missing < 0:
        start = -missing // 2 if draw is None else int(draw.stream(_SLICE).integers(0, 1 - missing))
        return features[start:start + frames]
    return np.pad(features, [(missing // 2, missing - missing // 2), (0, 0)])
