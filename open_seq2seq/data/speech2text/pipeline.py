"""Turns a recording into an example: features, or audio for the backend ``tf``."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from open_seq2seq.data.audio.audio_files import AudioError, Segment, is_silent, read_audio, read_for_inference
from open_seq2seq.data.audio.feature_cache import FeatureCache
from open_seq2seq.data.audio.feature_settings import FeatureSettings
from open_seq2seq.data.audio.features import audio_features, normalized_audio
from open_seq2seq.data.speech2text.augmentation import Augmentation, Draw, apply_masks


class Pipeline:
    """Reads recordings, augments them, and computes features; thread-safe.

    The steps are, in this order: read and resample, perturb the speed, normalise, add noise and dither, compute
    features, apply masks. With the backend ``tf``, they end with the noise: the model's graph computes the features and
    applies the masks, which are drawn here.

    Args:
      settings: the feature settings.
      augmentation: the augmentation of training audio; None outside training.
      silence_is_bad: whether silent recordings, and channels that cancel each other out, raise an error.
      cache: stores the result of the steps before the first random step; None for no cache.
    """

    def __init__(self, settings: FeatureSettings, augmentation: Augmentation | None, silence_is_bad: bool,
                 cache: FeatureCache | None = None) -> None:
        self.settings, self.augmentation, self.cache = settings, augmentation, cache
        self._silence_is_bad = silence_is_bad
        self._caches_features = caches_features(settings, augmentation)

    def example(self, path: str, samples: int, draw: Draw, segment: Segment | None = None,
                ) -> tuple[np.ndarray, np.ndarray | None]:
        """Makes one example.

        Args:
          path: the recording.
          samples: length of the example when the data set was read, in samples at the features' sampling rate.
          draw: the random numbers of this example and epoch.
          segment: the segment of the recording to use; None for all of it.

        Returns:
          (features ``[frames, num_features]``, or audio ``[samples]`` for ``tf``; masks ``[masks, 4]`` that the graph
          has to apply, or None).

        Raises:
          AudioError: the recording cannot be used.
        """
        cached = self._cached(path, samples, segment)
        return self._masked(cached, draw) if self._caches_features else self.from_audio(cached, draw)

    def audio(self, path: str, samples: int, segment: Segment | None = None) -> np.ndarray:
        """Reads a recording, or a segment of it, and returns its audio ``[samples]`` at the features' sampling rate.

        Raises:
          AudioError: the recording cannot be used, or its length has changed since the data set was read.
        """
        read = read_audio if self._silence_is_bad else read_for_inference
        audio = read(path, self.settings.sample_freq, segment)
        if len(audio) != samples:
            raise AudioError("changed", f"has changed since this run started: it has {len(audio):,} samples at "
                             f"{self.settings.sample_freq} Hz instead of {samples:,}")
        if self._silence_is_bad and is_silent(audio):
            raise AudioError("silent", "is silent")
        return audio

    def from_audio(self, audio: np.ndarray, draw: Draw | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Makes an example from audio, in the form that ``example`` returns.

        Args:
          audio: ``[samples]`` at the features' sampling rate.
          draw: see ``example``; None for no augmentation.
        """
        settings, augmentation = self.settings, self.augmentation
        if augmentation is not None and draw is not None:
            audio = augmentation.perturb_speed(audio, draw)
        audio = normalized_audio(audio, settings.gain)
        if augmentation is not None and draw is not None:
            audio = augmentation.add_noise(audio, draw)
            if settings.backend == "psf" and settings.gain is None:
                audio = normalized_audio(audio, None)  # psf would clip a peak above 1
        if settings.backend != "tf":
            audio = audio_features(audio, settings, dither_floor=augmentation is None)
        return (audio, None) if draw is None else self._masked(audio, draw)

    def _masked(self, values: np.ndarray, draw: Draw) -> tuple[np.ndarray, np.ndarray | None]:
        settings, augmentation = self.settings, self.augmentation
        if augmentation is None or not augmentation.num_masks:
            return values, None
        in_graph = settings.backend == "tf"
        frames = int(settings.num_frames(len(values))) if in_graph else len(values)
        masks = augmentation.masks(frames, settings.num_features, draw)
        if not in_graph:
            apply_masks(values, masks)
        return values, masks if in_graph else None

    def _cached(self, path: str, samples: int, segment: Segment | None) -> np.ndarray:
        """Returns the result of the steps before the first random step, from the cache if possible."""
        cached = self.cache.load(path, segment) if self.cache is not None else None
        if cached is not None and cached.dtype == np.float32 and cached.shape == self._shape(samples):
            return cached
        audio = self.audio(path, samples, segment)
        computed = self.from_audio(audio, None)[0] if self._caches_features else audio
        # Silent recordings are not cached: inference accepts them, but training and evaluation, which may share the
        # cache, have to reject them and cannot recognise silence in cached features.
        if self.cache is not None and not is_silent(audio):
            self.cache.store(path, computed, segment)
        return computed

    def _shape(self, samples: int) -> tuple[int, ...]:
        """Returns the shape of a recording's cached array."""
        if not self._caches_features:
            return (samples,)
        return int(self.settings.num_frames(samples)), self.settings.num_features


def caches_features(settings: FeatureSettings, augmentation: Augmentation | None) -> bool:
    """Returns whether features are cached, because they are the same in all epochs; otherwise audio is cached."""
    return settings.backend != "tf" and not (augmentation is not None and augmentation.changes_audio)


def cache_parameters(settings: FeatureSettings, augmentation: Augmentation | None) -> dict[str, Any]:
    """Returns the parameters that cached arrays depend on."""
    if not caches_features(settings, augmentation):
        return {"kind": "audio", "sample_freq": settings.sample_freq}
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    values.pop("pad_to" if not settings.pad_signal else "", None)
    return {"kind": "features", **{name: value.tolist() if isinstance(value, np.ndarray) else value
                                   for name, value in values.items()}}
