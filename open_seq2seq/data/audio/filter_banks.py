"""Windows, mel filters and the cosine transform, as arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_SLANEY_LINEAR = 200 / 3
"""Hz per mel in the linear part of Slaney's scale, below ``_SLANEY_BREAK`` Hz."""
_SLANEY_BREAK = 1000.0
_SLANEY_STEP = np.log(6.4) / 27


def window(name: str, length: int) -> np.ndarray:
    """Returns a symmetric window ``[length]``: ``hanning``, ``hamming``, or ``none``, which is all ones."""
    makers: dict[str, Callable[[int], np.ndarray]] = {"hanning": np.hanning, "hamming": np.hamming, "none": np.ones}
    return makers[name](length)


def slaney_mel_filters(rate: int, points: int, count: int, fmax: float | None = None) -> np.ndarray:
    """Returns triangular filters of equal area on Slaney's mel scale, from 0 Hz to ``fmax``.

    The scale is linear up to 1 kHz and logarithmic above (Slaney 1998, Auditory Toolbox). The filters are those of
    ``librosa.filters.mel`` with default arguments.

    Args:
      rate: sampling rate in Hz.
      points: number of points of the Fourier transform.
      count: number of filters.
      fmax: upper edge of the last filter in Hz; None for half the sampling rate.

    Returns:
      ``[count, points // 2 + 1]``.
    """
    frequencies = np.arange(points // 2 + 1) * (rate / points)
    edges = _slaney_hz(np.linspace(0, _slaney_mel(fmax or rate / 2), count + 2))
    rising = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    return np.maximum(0, np.minimum(rising, falling)) * (2 / (edges[2:] - edges[:-2]))[:, None]


def _slaney_mel(hz: float) -> float:
    if hz < _SLANEY_BREAK:
        return hz / _SLANEY_LINEAR
    return _SLANEY_BREAK / _SLANEY_LINEAR + np.log(hz / _SLANEY_BREAK) / _SLANEY_STEP


def _slaney_hz(mel: np.ndarray) -> np.ndarray:
    break_mel = _SLANEY_BREAK / _SLANEY_LINEAR
    return np.where(mel < break_mel, mel * _SLANEY_LINEAR,
                    _SLANEY_BREAK * np.exp(_SLANEY_STEP * (np.maximum(mel, break_mel) - break_mel)))


def htk_mel_filters(rate: int, points: int, count: int, pitch: float = 1.0, fmax: float | None = None) -> np.ndarray:
    """Returns triangular filters of height 1 on the mel scale 2595·log10(1 + f/700), from 0 Hz to ``fmax``.

    The filters are those of ``librosa.filters.mel`` with ``htk=True`` and ``norm=None``.

    Args:
      rate: sampling rate in Hz.
      points: number of points of the Fourier transform.
      count: number of filters.
      pitch: factor by which the frequencies of the signal are multiplied before they are filtered.
      fmax: upper edge of the last filter in Hz; None for half the sampling rate.

    Returns:
      ``[count, points // 2 + 1]``.
    """
    frequencies = np.arange(points // 2 + 1) * (pitch * rate / points)
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + (fmax or rate / 2) / 700), count + 2) / 2595) - 1)
    rising = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    return np.maximum(0, np.minimum(rising, falling))


def psf_mel_filters(rate: int, points: int, count: int) -> np.ndarray:
    """Returns triangular filters of height 1, with corners rounded to bins as in ``python_speech_features``.

    They cover 0 Hz to half the sampling rate on the mel scale 2595·log10(1 + f/700) (O'Shaughnessy 1987).

    Args:
      rate: sampling rate in Hz.
      points: number of points of the Fourier transform.
      count: number of filters.

    Returns:
      ``[count, points // 2 + 1]``.
    """
    mels = np.linspace(0, 2595 * np.log10(1 + rate / 2 / 700), count + 2)
    corners = np.floor((points + 1) * 700 * (10 ** (mels / 2595) - 1) / rate)
    bins = np.arange(points // 2 + 1)
    left, middle, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = np.where((bins >= left) & (bins < middle), (bins - left) / np.maximum(middle - left, 1), 0)
    falling = np.where((bins >= middle) & (bins < right), (right - bins) / np.maximum(right - middle, 1), 0)
    return rising + falling


def cosine_transform(inputs: int, outputs: int) -> np.ndarray:
    """Returns the first columns of the orthonormal discrete cosine transform of type II, ``[inputs, outputs]``."""
    angles = np.pi / inputs * (np.arange(inputs)[:, None] + 0.5) * np.arange(outputs)
    matrix = np.cos(angles) * np.sqrt(2 / inputs)
    matrix[:, 0] /= np.sqrt(2)
    return matrix
