"""Features of an utterance that arrives in pieces."""

from __future__ import annotations

import numpy as np

from open_seq2seq.data.audio.feature_settings import FeatureSettings
from open_seq2seq.data.audio.features import (
    completed_features,
    frame_values,
    normalized_audio,
    normalized_features,
)


class FeatureStream:
    """Computes the values of each window once, and normalises them whenever features are requested.

    Normalisation by the utterance (peak of its audio, mean and deviation of its features, range below the loudest one)
    uses the part that is held: everything so far, except what was forgotten. At the end of the utterance, if nothing
    was forgotten, the features are those of ``audio_features``.

    Args:
      settings: what is computed; the backend ``tf`` gives the values of ``librosa``.

    Attributes:
      first: number of the first frame that is held.
      end: number of the last frame with a complete window, plus 1.
    """

    def __init__(self, settings: FeatureSettings) -> None:
        self.settings = settings
        self.first = self.end = 0
        self._audio = np.zeros(0, np.float32)
        self._start = 0  # number of the first sample that is held
        self._values: np.ndarray | None = None
        self._peak = -1.0  # of the audio that the values were computed from, if it scales the audio
        self._ended = False

    @property
    def samples(self) -> int:
        """Number of samples so far."""
        return self._start + len(self._audio)

    def append(self, audio: np.ndarray) -> None:
        """Appends recorded audio ``[samples]``."""
        self._audio = np.concatenate([self._audio, np.asarray(audio, np.float32)])

    def finish(self) -> None:
        """Ends the utterance, so that its last windows can be padded."""
        self._ended = True

    def features(self) -> np.ndarray:
        """Returns the features ``[end - first, num_features]`` float32 of the frames held, normalised."""
        self._compute()
        if self._values is None:
            return np.zeros([0, self.settings.num_features], np.float32)
        features = completed_features(self._values, self.settings)
        return normalized_features(features, self.settings).astype(np.float32)

    def forget(self, before: int) -> None:
        """Drops the frames before frame ``before``, and the audio that no other frame needs."""
        before = min(before, self.end)
        if self._values is None or before <= self.first:
            return
        self._values = self._values[before - self.first:]
        self.first = before
        # One more window than the first frame needs, for the pre-emphasis and for the reflection at the end.
        settings = self.settings
        start = max(0, before * settings.hop - settings.samples_before - settings.window_samples)
        self._audio = self._audio[start - self._start:]
        self._start = start

    def _compute(self) -> None:
        """Computes missing values, or all values if a new peak scales the audio differently."""
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
        """Returns the number of frames, from the utterance's first one, that do not depend on further audio."""
        settings, samples = self.settings, self.samples
        if self._ended:
            return int(settings.num_frames(samples)) if samples else 0
        before = settings.samples_before
        # The reflection before the first sample needs one more sample than there are places before it.
        missing = before + samples - settings.window_samples
        return 0 if missing < 0 or samples <= before else missing // settings.hop + 1
