"""Features of one utterance in NumPy, whole or in chunks: the backends ``psf`` and ``librosa``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from open_seq2seq.data.audio.audio_files import OppositeChannels, check_rate, converted, resampled_length
from open_seq2seq.data.audio.feature_settings import PEAK_EPSILON, PREEMPHASIS, SMALLEST_DEVIATION, FeatureSettings

TINY_POWER = 1e-30
"""Lower bound of the power in a spectrogram bin."""
LOG_EPSILON = 1e-20
"""Added to the power of a mel filter before the logarithm (``librosa``)."""
DECIBEL_EPSILON = 1e-10
"""Lower bound of the power of a mel filter for ``mfcc`` (``librosa``)."""
DECIBEL_RANGE = 80.0
"""For ``mfcc`` (``librosa``): values lower than the utterance's maximum minus this many dB are raised to that level."""
FULL_SCALE = 32767.0
"""Factor from audio with a peak of 1 to 16-bit samples (``psf``)."""
EMPTY_FILTER = float(np.finfo(np.float64).eps)
"""Power of a mel filter in which it is 0 (``psf``)."""


def normalized_audio(audio: np.ndarray, gain: float | None) -> np.ndarray:
    """Returns audio ``[samples]`` as float32, multiplied by ``gain``, or scaled to a peak of 1 if ``gain`` is None."""
    audio = np.asarray(audio, np.float32)
    if gain is None:
        gain = 1.0 / (float(np.max(np.abs(audio), initial=0.0)) + PEAK_EPSILON)
    return audio * np.float32(gain)


def audio_features(audio: np.ndarray, settings: FeatureSettings, dither_floor: bool = True) -> np.ndarray:
    """Computes the features of one utterance.

    Args:
      audio: ``[samples]``, normalised by ``normalized_audio``.
      settings: the feature settings; the backend ``tf`` computes the values of ``librosa``.
      dither_floor: whether to add the expected power of the dither to each frequency bin; True for audio to which no
        dither was added.

    Returns:
      Normalised features ``[frames, num_features]``, float32.
    """
    frames = range(int(settings.num_frames(len(audio))))
    values = frame_values(audio, settings, frames, dither_floor=dither_floor)
    return normalized_features(completed_features(values, settings), settings).astype(np.float32)


def frame_values(audio: np.ndarray, settings: FeatureSettings, frames: range, start: int = 0,
                 dither_floor: bool = True) -> np.ndarray:
    """Computes the part of the features that needs no statistics of the utterance: log powers of each window.

    Args:
      audio: ``[samples]``, normalised; may lack the beginning of the utterance.
      settings: the feature settings.
      frames: indices of consecutive frames.
      start: index in the utterance of the first sample of ``audio``; if not 0, ``audio`` must begin at least one sample
        before the first window, for the pre-emphasis.
      dither_floor: see ``audio_features``.

    Returns:
      float64 ``[frames, values]``, the input of ``completed_features``.
    """
    values = _psf_values if settings.backend == "psf" else _librosa_values
    return values(audio, settings, frames, start, dither_floor)


def completed_features(values: np.ndarray, settings: FeatureSettings) -> np.ndarray:
    """Computes the unnormalised features ``[frames, num_features]`` of an utterance from its ``frame_values``."""
    is_psf = settings.backend == "psf"
    if settings.input_type == "spectrogram":
        return (values - values.max())[:, :settings.num_features] if is_psf else values
    if settings.input_type == "logfbank":
        return values
    return (values if is_psf else np.maximum(values, values.max() - DECIBEL_RANGE)) @ settings.cosines


def normalized_features(features: np.ndarray, settings: FeatureSettings) -> np.ndarray:
    """Returns features ``[frames, num_features]`` minus their mean, divided by their standard deviation.

    A mean or deviation that the settings do not give is computed from the features.
    """
    axis = 0 if settings.norm_per_feature else None
    mean = np.mean(features, axis=axis) if settings.mean is None else settings.mean
    if settings.std_dev is not None:
        return (features - mean) / settings.std_dev
    deviation = np.std(features, axis=axis)
    return (features - mean) / np.where(deviation < SMALLEST_DEVIATION, 1.0, deviation)


def _librosa_values(audio: np.ndarray, settings: FeatureSettings, frames: range, start: int,
                    dither_floor: bool) -> np.ndarray:
    """Computes ``frame_values`` of windows centred on multiples of the hop; the signal is reflected at its ends."""
    samples = audio.astype(np.float64)
    if settings.has_preemphasis:
        samples = _emphasized(samples)
    hop, size, before = settings.hop, settings.window_samples, settings.samples_before
    indices = reflected_indices(start + len(samples), before - frames.start * hop, (len(frames) - 1) * hop + size)
    power = _power(samples[indices - start], settings.window_values, hop, settings.fft_points)
    if dither_floor and settings.dither:
        power += settings.dither_power
    if settings.input_type == "spectrogram":
        return 10 * np.log10(np.maximum(power[:, :settings.num_features], TINY_POWER))
    mel = _mel(power, settings)
    if settings.input_type == "logfbank":
        return np.log(mel + LOG_EPSILON)
    return 10 * np.log10(np.maximum(mel, DECIBEL_EPSILON))


def _psf_values(audio: np.ndarray, settings: FeatureSettings, frames: range, start: int,
                dither_floor: bool) -> np.ndarray:
    """Computes ``frame_values`` of the audio after scaling and rounding it towards zero to 16-bit integer values.

    The first window of the utterance starts at sample 0, and the last one is padded with zeros.
    """
    samples = np.trunc(np.clip(audio * np.float32(FULL_SCALE), -FULL_SCALE - 1, FULL_SCALE)).astype(np.float64)
    hop, size = settings.hop, settings.window_samples
    unpadded = int(replace(settings, pad_signal=False).num_frames(start + len(samples)))
    samples = np.pad(samples, (0, max(0, frames.stop - unpadded) * hop))
    if settings.has_preemphasis:
        samples = _emphasized(samples)
    first, end = frames.start * hop - start, (frames.stop - 1) * hop + size - start
    samples = np.pad(samples, (0, max(0, end - len(samples))))
    power = _power(samples[first:end], settings.window_values, hop, settings.fft_points) / settings.fft_points
    if dither_floor and settings.dither:
        power += settings.dither_power * (FULL_SCALE ** 2 / settings.fft_points)
    if settings.input_type == "spectrogram":
        return 10 * np.log10(np.maximum(power, TINY_POWER))
    mel = _mel(power, settings)
    return np.log(np.where(mel == 0, EMPTY_FILTER, mel))


def centred_power(audio: np.ndarray, points: int, hop: int) -> np.ndarray:
    """Returns the power of each frequency bin in frames that are centred on multiples of ``hop`` samples.

    The window is the periodic Hann window; at its ends, the signal is reflected.

    Args:
      audio: ``[samples]``, at least one.
      points: length of a frame and of its Fourier transform.
      hop: number of samples from one frame to the next.

    Returns:
      float64 ``[1 + samples // hop, points // 2 + 1]``.
    """
    indices = reflected_indices(len(audio), points // 2, len(audio) // hop * hop + points)
    return _power(audio[indices], np.hanning(points + 1)[:-1], hop, points)


def reflected_indices(samples: int, before: int, total: int) -> np.ndarray:
    """Returns the sample indices of a signal that is extended by reflection at its ends, repeatedly if necessary.

    Args:
      samples: length of the original signal.
      before: number of positions before the first sample.
      total: length of the extended signal.

    Returns:
      Indices ``[total]`` from 0 to ``samples - 1``.
    """
    period = max(1, 2 * (samples - 1))
    folded = np.abs(np.arange(total) - before) % period
    return np.minimum(folded, period - folded) if samples > 1 else np.zeros(total, np.int64)


def _emphasized(samples: np.ndarray) -> np.ndarray:
    emphasized = samples.copy()
    emphasized[1:] -= PREEMPHASIS * samples[:-1]
    return emphasized


def _mel(power: np.ndarray, settings: FeatureSettings) -> np.ndarray:
    return (power.astype(np.float32) @ settings.filters).astype(np.float64)


def _power(samples: np.ndarray, window: np.ndarray, hop: int, points: int) -> np.ndarray:
    frames = np.lib.stride_tricks.sliding_window_view(samples, len(window))[::hop]
    spectrum = np.fft.rfft(frames * window, points)
    return spectrum.real ** 2 + spectrum.imag ** 2


class AudioPieces:
    """Converts one recording chunk by chunk; the concatenated results equal the conversion of the whole recording.

    Args:
      rate: sampling rate of the chunks in Hz.
      sample_freq: sampling rate of the result in Hz.

    Raises:
      AudioError: the rate is out of range.
    """

    def __init__(self, rate: int, sample_freq: int) -> None:
        rate = check_rate(rate)
        self._rate, self._sample_freq = rate, sample_freq
        self._taken = self._given = 0
        self._resampler: Any = None
        if rate != sample_freq:
            import soxr

            self._resampler = soxr.ResampleStream(rate, sample_freq, 1, dtype="float32", quality="HQ")

    def convert(self, piece: np.ndarray) -> np.ndarray:
        """Converts a chunk, and returns the next part of the result, float32 ``[samples]``.

        Args:
          piece: ``[samples]`` or ``[samples, channels]``, integers or floats from -1 to 1; may be empty.

        Raises:
          AudioError: the chunk has neither of these shapes, is not numeric, or contains NaN or infinite values.
        """
        piece = np.asarray(piece)
        if not piece.size and piece.ndim in (1, 2):
            return np.zeros(0, np.float32)
        try:
            audio = converted(piece, self._rate, self._rate)
        except OppositeChannels as error:  # a chunk says little about the recording
            audio = error.average
        self._taken += len(audio)
        return audio if self._resampler is None else self._counted(self._resampler.resample_chunk(audio))

    def rest(self) -> np.ndarray:
        """Ends the recording, and returns the rest of the result ``[samples]``."""
        if self._resampler is None or not self._taken:
            return np.zeros(0, np.float32)
        rest = self._counted(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))
        missing = resampled_length(self._taken, self._rate, self._sample_freq) - self._given
        return np.pad(rest, (0, missing)) if missing >= 0 else rest[:missing]

    def _counted(self, audio: np.ndarray) -> np.ndarray:
        self._given += len(audio)
        return audio


class FeatureStream:
    """Computes the features of an utterance incrementally.

    The log powers of each window are stored, and computed again only if a new peak changes the scale of the audio. They
    are normalised whenever features are requested. Statistics of the utterance (peak of the audio, mean, deviation and
    maximum of the features) are computed from the buffered part: all audio so far, except what ``forget`` has dropped.
    At the end of the utterance, if nothing was dropped, the features equal those of ``audio_features``.

    Args:
      settings: the feature settings; the backend ``tf`` computes the values of ``librosa``.

    Attributes:
      first: index of the first buffered frame.
      end: index of the last buffered frame, plus 1.
    """

    def __init__(self, settings: FeatureSettings) -> None:
        self.settings = settings
        self.first = self.end = 0
        self._audio = np.zeros(0, np.float32)
        self._start = 0  # index of the first buffered sample
        self._values: np.ndarray | None = None
        # Peak of the audio at the last computation of _values: -1 before the first, 0 if a gain replaces the peak.
        self._peak = -1.0
        self._ended = False

    @property
    def samples(self) -> int:
        """Number of samples appended so far."""
        return self._start + len(self._audio)

    def append(self, audio: np.ndarray) -> None:
        """Appends audio ``[samples]``."""
        self._audio = np.concatenate([self._audio, np.asarray(audio, np.float32)])

    def finish(self) -> None:
        """Marks the end of the utterance, so that windows that extend beyond it are computed, too."""
        self._ended = True

    def features(self) -> np.ndarray:
        """Returns the normalised features of the buffered frames, float32 ``[end - first, num_features]``."""
        self._compute()
        if self._values is None:
            return np.zeros([0, self.settings.num_features], np.float32)
        features = completed_features(self._values, self.settings)
        return normalized_features(features, self.settings).astype(np.float32)

    def forget(self, before: int) -> None:
        """Drops the frames before frame ``before``, and the audio that no remaining frame needs."""
        before = min(before, self.end)
        if self._values is None or before <= self.first:
            return
        self._values = self._values[before - self.first:]
        self.first = before
        # Keep one window more than frame ``before`` needs, for the pre-emphasis and the reflection at the end.
        settings = self.settings
        start = max(0, before * settings.hop - settings.samples_before - settings.window_samples)
        self._audio = self._audio[start - self._start:]
        self._start = start

    def _compute(self) -> None:
        """Computes missing values, or all values if a new peak changes the scale of the audio."""
        end = self._complete_frames()
        peak = float(np.max(np.abs(self._audio), initial=0.0)) if self.settings.gain is None else 0.0
        if peak != self._peak:
            self._values, self._peak = None, peak
        begin = self.first if self._values is None else self.end
        if end > begin:
            audio = normalized_audio(self._audio, self.settings.gain)
            new = frame_values(audio, self.settings, range(begin, end), self._start)
            self._values = new if self._values is None else np.concatenate([self._values, new])
        self.end = max(self.end, end)

    def _complete_frames(self) -> int:
        """Returns the number of frames since the start of the utterance that do not depend on future audio."""
        settings, samples = self.settings, self.samples
        if self._ended:
            return int(settings.num_frames(samples)) if samples else 0
        before = settings.samples_before
        # The reflection before the first sample needs one more sample than there are positions before it.
        missing = before + samples - settings.window_samples
        return 0 if missing < 0 or samples <= before else missing // settings.hop + 1
