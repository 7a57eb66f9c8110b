"""Settings of audio features: sizes, windows, mel filters, the cosine transform, and normalisation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from open_seq2seq.config.params import REFUSE, Param, without_effect
from open_seq2seq.utils.errors import ConfigError

_SLANEY_LINEAR = 200 / 3
"""Hz per mel in the linear part of Slaney's scale, below ``_SLANEY_BREAK`` Hz."""
_SLANEY_BREAK = 1000.0
_SLANEY_STEP = np.log(6.4) / 27


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


BACKENDS = ("psf", "librosa", "tf")
INPUT_TYPES = ("spectrogram", "mfcc", "logfbank")
PREEMPHASIS = 0.97
PEAK_EPSILON = 1e-5 / 2 ** 15
"""Added to the peak before audio is divided by it: 1e-5 on the scale of 16-bit samples."""
SMALLEST_DEVIATION = 1e-5
"""Features with a smaller standard deviation, as in silence or for an empty filter, are not divided by it."""
_PSF_FFT = 512


@dataclass(frozen=True, eq=False)
class FeatureSettings:
    """The settings of audio features, and the sizes and filters derived from them.

    Attributes:
      num_features: number of features per frame.
      input_type: ``spectrogram``, ``mfcc`` or ``logfbank``.
      backend: ``psf``, ``librosa``, or ``tf``, which computes the same values as ``librosa``.
      sample_freq: sampling rate in Hz.
      window_size: length of a window in seconds.
      window_stride: time between the starts of consecutive windows in seconds.
      window: ``hanning``, ``hamming``, ``none``, or None for the backend's default.
      num_fft: number of points of the Fourier transform; None for the backend's default.
      norm_per_feature: whether mean and deviation are computed for each feature, not over all features together.
      gain: factor that the audio is multiplied by; if None, the audio is divided by its peak.
      mean: one number, or one for each feature, to subtract from the features; None for the utterance's mean.
      std_dev: one number, or one for each feature, to divide the features by; None for the utterance's standard
        deviation.
      dither: standard deviation of the white noise that is added to audio in training.
      pad_to: the number of frames is padded to a multiple of this value.
      pad_signal: whether the signal is padded instead of the features (``psf`` only).
    """

    num_features: int
    input_type: str
    backend: str = "psf"
    sample_freq: int = 16000
    window_size: float = 0.02
    window_stride: float = 0.01
    window: str | None = None
    num_fft: int | None = None
    norm_per_feature: bool = False
    gain: float | None = None
    mean: np.ndarray | None = None
    std_dev: np.ndarray | None = None
    dither: float = 0.0
    pad_to: int = 8
    pad_signal: bool = False

    @property
    def window_samples(self) -> int:
        """Length of a window in samples."""
        return _samples(self.window_size, self.sample_freq)

    @property
    def hop(self) -> int:
        """Number of samples from one window to the next."""
        return _samples(self.window_stride, self.sample_freq)

    @property
    def frame_seconds(self) -> float:
        """Time from one window to the next in seconds: ``window_stride`` rounded down to whole samples."""
        return self.hop / self.sample_freq

    @property
    def fft_points(self) -> int:
        """Number of points of the Fourier transform."""
        if self.num_fft:
            return self.num_fft
        if self.input_type == "spectrogram":
            return self.window_samples
        power_of_two = 1 << max(0, self.window_samples - 1).bit_length()
        return max(_PSF_FFT, power_of_two) if self.backend == "psf" else power_of_two

    @property
    def samples_before(self) -> int:
        """Number of samples of the first window that precede the signal."""
        # librosa centres the first window on the first sample of the signal; the window may be shorter than fft_points.
        points = self.fft_points
        return 0 if self.backend == "psf" else points // 2 - (points - self.window_samples) // 2

    @property
    def has_preemphasis(self) -> bool:
        """Whether pre-emphasis is applied, which amplifies high frequencies before the transform."""
        return self.input_type != "spectrogram"

    @functools.cached_property
    def window_values(self) -> np.ndarray:
        """The window function ``[window_samples]``, float64."""
        default = "none" if self.backend == "psf" and self.input_type != "spectrogram" else "hanning"
        makers: dict[str, Callable[[int], np.ndarray]] = {"hanning": np.hanning, "hamming": np.hamming, "none": np.ones}
        return makers[self.window or default](self.window_samples)

    @functools.cached_property
    def filters(self) -> np.ndarray:
        """The mel filters ``[bins, filters]``, float32, which takes half the time and is accurate enough."""
        count = self.num_features * (2 if self.input_type == "mfcc" else 1)
        make = psf_mel_filters if self.backend == "psf" else slaney_mel_filters
        return make(self.sample_freq, self.fft_points, count).T.astype(np.float32)

    @functools.cached_property
    def cosines(self) -> np.ndarray:
        """The matrix ``[filters, num_features]`` of the cosine transform for ``mfcc``; liftered for ``psf``."""
        matrix = cosine_transform(self.filters.shape[1], self.num_features)
        if self.backend != "psf":
            return matrix
        lift = 2 * self.num_features
        return matrix * (1 + lift / 2 * np.sin(np.pi * np.arange(self.num_features) / lift))

    @functools.cached_property
    def dither_power(self) -> np.ndarray:
        """Expected power that the dither adds to each frequency bin ``[bins]``, for audio with a peak of 1."""
        # The power spectrum is the Fourier transform of the autocorrelation. The autocorrelation of white noise after
        # pre-emphasis and windowing is non-zero only at lags -1, 0 and 1.
        window, coefficient = self.window_values, PREEMPHASIS if self.has_preemphasis else 0.0
        phases = 2 * np.pi * np.arange(self.fft_points // 2 + 1) / self.fft_points
        power = (1 + coefficient ** 2) * np.sum(window ** 2)
        return self.dither ** 2 * (power - 2 * coefficient * np.sum(window[1:] * window[:-1]) * np.cos(phases))

    def num_frames(self, samples: Any) -> Any:
        """Returns the number of frames for ``samples``, an integer or an array of integers.

        Padding to a multiple of ``pad_to`` is included only if the signal is padded (``pad_signal``).
        """
        if self.backend != "psf":
            return 1 + samples // self.hop
        frames = 1 + np.maximum(0, -((self.window_samples - np.asarray(samples)) // self.hop))
        return -(-frames // self.pad_to) * self.pad_to if self.pad_signal and self.pad_to > 1 else frames

    def problems(self, path: str) -> list[str]:
        """Returns one sentence for each invalid setting; ``path`` is the path of the settings in the config."""
        if self.window_samples < 2:
            return [f"'{path}/window_size' is {self.window_size} s, but must be at least 2 samples at "
                    f"{self.sample_freq} Hz."]
        if self.hop < 1:
            return [f"'{path}/window_stride' is {self.window_stride} s, but must be at least one sample at "
                    f"{self.sample_freq} Hz."]
        return self._shape_problems(path)

    def _shape_problems(self, path: str) -> list[str]:
        problems = []
        if self.fft_points < self.window_samples:
            problems.append(f"'{path}/num_fft' is {self.num_fft}, but must be at least the number of samples in a "
                            f"window, {self.window_samples}.")
        bins = self.fft_points // 2 + 1
        if self.input_type == "spectrogram" and self.num_features > bins:
            problems.append(f"'{path}/num_audio_features' is {self.num_features}, but a spectrogram of "
                            f"{self.fft_points} points has only {bins} frequencies: lower num_audio_features or raise "
                            "num_fft.")
        for name, value in (("features_mean", self.mean), ("features_std_dev", self.std_dev)):
            if value is not None and value.shape not in ((), (1,), (self.num_features,)):
                problems.append(f"'{path}/{name}' must be one number or a list of {self.num_features} numbers, got "
                                f"shape {list(value.shape)}.")
        if self.std_dev is not None and np.any(self.std_dev <= 0):
            problems.append(f"'{path}/features_std_dev' must be greater than 0.")
        return problems

    def describe_empty_filters(self) -> str | None:
        """Returns a warning if some mel filters are so narrow that they contain no frequency bin; None otherwise."""
        if self.input_type == "spectrogram":
            return None
        empty = int(np.sum(self.filters.max(axis=0) == 0))
        return (f"{empty} of the {self.filters.shape[1]} mel filters contain no frequency of the "
                f"{self.fft_points}-point transform: lower num_audio_features or raise num_fft") if empty else None


def _samples(seconds: float, rate: int) -> int:
    return math.floor(seconds * rate + 1e-6)


def feature_params() -> dict[str, Any]:
    """Returns the optional parameters of a data layer from which ``make_settings`` makes the settings."""
    numbers = (float, list, np.ndarray, type(None))
    return {
        "backend": Param(list(BACKENDS), "psf", "Definition of the features. psf: that of python_speech_features; "
                         "librosa: that of librosa; tf: the same features as librosa, computed in the TensorFlow "
                         "graph.", on_change=REFUSE),
        "sample_freq": Param(int, 16000, "Sampling rate of the audio that features are computed from.", "Hz", minimum=1,
                             maximum=10**6, on_change=REFUSE),
        "window_size": Param(float, 0.02, "Length of a window.", "seconds", above=0.0, maximum=10.0, on_change=REFUSE),
        "window_stride": Param(float, 0.01, "Time from the start of one window to the start of the next.", "seconds",
                               above=0.0, maximum=10.0, on_change=REFUSE),
        "window": Param([None, "hanning", "hamming", "none"], None, "Window function; by default none for mfcc and "
                        "logfbank of psf, and hanning otherwise.", on_change=REFUSE),
        "num_fft": Param((int, type(None)), None, "Number of points of the Fourier transform; by default the number of "
                         "samples in a window for spectrograms, otherwise the next power of two (psf: at least 512).",
                         minimum=1, maximum=2**24, on_change=REFUSE),
        "norm_per_feature": Param(bool, False, "Whether to normalise each feature separately.", on_change=REFUSE),
        "features_mean": Param(numbers, None, "Mean to subtract from the features: one number, or one for each "
                               "feature; by default the mean of each utterance.", on_change=REFUSE),
        "features_std_dev": Param(numbers, None, "Standard deviation to divide the features by: one number, or one "
                                  "for each feature; by default that of each utterance.", on_change=REFUSE),
        "gain": Param((float, type(None)), None, "Factor by which to multiply the audio, whose samples are from -1 to "
                      "1; by default the factor that makes the peak 1.", minimum=0.0, on_change=REFUSE),
        "dither": Param(float, 0.0, "Standard deviation of the white noise that is added to training audio after its "
                        "normalisation, usually to a peak of 1. In evaluation and inference, the expected power of the "
                        "noise is added instead.", minimum=0.0),
        "pad_to": Param(int, 8, "The number of frames of a batch is padded to a multiple of this value; 0 or 1 adds "
                        "no padding.", "frames", minimum=0, maximum=10**5),
        **without_effect("precompute_mel_basis", reason=", because the mel filters are always computed in advance"),
        "pad_signal": Param(bool, False, "For psf only: whether to pad each signal with zeros instead of the features. "
                            "The padding's frames then count as part of the utterance, as in NVIDIA's "
                            "OpenSeq2Seq.", on_change=REFUSE),
    }


def make_settings(params: Mapping[str, Any], path: str) -> FeatureSettings:
    """Returns the feature settings given by a data layer's parameters.

    Raises:
      ConfigError: the parameters are invalid or contradict each other.
    """
    def numbers(name: str) -> np.ndarray | None:
        value = params[name]
        try:
            return None if value is None else np.asarray(value, np.float64)
        except (ValueError, TypeError):
            raise ConfigError([f"'{path}/{name}' must be a number or a list of numbers, got {value!r}."]) from None

    settings = FeatureSettings(
        num_features=params["num_audio_features"], std_dev=numbers("features_std_dev"), mean=numbers("features_mean"),
        **{name: params[name] for name in (
            "input_type", "backend", "sample_freq", "window_size", "window_stride", "window", "num_fft",
            "norm_per_feature", "gain", "dither", "pad_to")},
        pad_signal=params["pad_signal"] and params["backend"] == "psf")
    problems = settings.problems(path)
    if problems:
        raise ConfigError(problems)
    return settings
