"""The back-end ``librosa`` against the library, all in one file: the library's first call costs seconds."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.data.audio.feature_settings import FeatureSettings, slaney_mel_filters
from open_seq2seq.data.audio.features import audio_features, normalized_audio
from open_seq2seq.utils.librosa_import import import_librosa
from tests.unit.data.audio import references

librosa = import_librosa()
KINDS = [("spectrogram", 160), ("mfcc", 13), ("logfbank", 64)]


def worst_difference(clips, settings, dtype) -> float:
    worst = 0.0
    for clip in clips:
        ours = audio_features(normalized_audio(clip, None), settings)
        theirs = references.librosa_reference(clip, settings, dtype)
        assert ours.shape == theirs.shape == (settings.num_frames(len(clip)), settings.num_features)
        worst = max(worst, float(np.abs(ours - theirs).max()))
    return worst


@pytest.mark.parametrize("window", ["hanning", "hamming", "none"])
@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize(("kind", "count"), KINDS)
def test_made_up_clips(clips, kind, count, per_feature, window):
    settings = FeatureSettings(count, kind, "librosa", norm_per_feature=per_feature, window=window)
    assert worst_difference(clips[:4], settings, np.float64) < 2e-6
    assert worst_difference(clips[:4], settings, np.float32) < 1e-4


def test_a_longer_transform(clips):
    settings = FeatureSettings(64, "logfbank", "librosa", num_fft=1024, window_size=0.025, window_stride=0.0125)
    assert worst_difference(clips[:3], settings, np.float64) < 2e-6


@pytest.mark.parametrize(("rate", "points", "count"), [(16000, 512, 64), (8000, 256, 40), (22050, 1024, 80)])
def test_mel_filters(rate, points, count):
    theirs = librosa.filters.mel(sr=rate, n_fft=points, n_mels=count, dtype=np.float64)
    assert np.allclose(slaney_mel_filters(rate, points, count), theirs, rtol=0, atol=1e-12)
