"""Features of an utterance that arrives in chunks."""

from __future__ import annotations

from typing import Any

import numpy as np

from open_seq2seq.data.audio.audio_files import OppositeChannels, check_rate, converted, resampled_length
from open_seq2seq.data.audio.feature_settings import FeatureSettings
from open_seq2seq.data.audio.features import (
    completed_features,
    frame_values,
    normalized_audio,
    normalized_features,
)


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
