"""Features of an utterance that comes in pieces: at any moment those of what was heard so far."""

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
    """Computes the values of each window once, and normalises all of them anew whenever features are asked for.

    What is normalised by the utterance (the peak of its audio, mean and deviation of its features, the range below its
    loudest one) is so by what is held: everything heard so far, less what was forgotten. Once the utterance has ended,
    and where nothing was forgotten, the features are those of ``audio_features``.

    Args:
      settings: what is computed; the backend ``tf`` gives the numbers of ``librosa``.

    Attributes:
      first: number of the first frame that is held.
      end: number of the frame after the last one whose window is complete.
    """

    def __init__(self, settings: FeatureSettings) -> None:
        self.settings = settings
        self.first = self.end = 0
        self._audio = np.zeros(0, np.float32)
        self._start = 0  # which sample of the utterance the first one is that is held
        self._values: np.ndarray | None = None
        self._peak = -1.0  # of the audio that the values were computed from, where that scales it
        self._ended = False

    @property
    def samples(self) -> int:
        """How many samples were heard."""
        return self._start + len(self._audio)

    def append(self, audio: np.ndarray) -> None:
        """Takes in audio ``[samples]``, of any length, as it was recorded."""
        self._audio = np.concatenate([self._audio, np.asarray(audio, np.float32)])

    def finish(self) -> None:
        """Says that the utterance has ended: its last windows can be filled up."""
        self._ended = True

    def features(self) -> np.ndarray:
        """Returns the features ``[end - first, num_features]`` float32 of the frames held, normalised."""
        self._compute()
        if self._values is None:
            return np.zeros([0, self.settings.num_features], np.float32)
        features = completed_features(self._values, self.settings)
        return normalized_features(features, self.settings).astype(np.float32)

    def forget(self, before: int) -> None:
        """Drops frames before this one, and the audio that no other frame needs."""
        before = min(before, self.end)
        if self._values is None or before <= self.first:
            return
        self._values = self._values[before - self.first:]
        self.first = before
        # A window more than the first frame needs, for the pre-emphasis and for the reflection at the end.
        settings = self.settings
        start = max(0, before * settings.hop - settings.samples_before - settings.window_samples)
        self._audio = self._audio[start - self._start:]
        self._start = start

    def _compute(self) -> None:
        """Computes what is missing; everything, where a new peak scales the audio otherwise."""
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
        """How many frames, from the utterance's first, depend no more on what is still to come."""
        settings, samples = self.settings, self.samples
        if self._ended:
            return int(settings.num_frames(samples)) if samples else 0
        before = settings.samples_before
        # The reflection before the first sample needs as many samples behind it, and one more.
        missing = before + samples - settings.window_samples
        return 0 if missing < 0 or samples <= before else missing // settings.hop + 1
