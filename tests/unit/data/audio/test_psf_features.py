"""The back-end ``psf`` against the library python_speech_features."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.data.audio.feature_settings import FeatureSettings
from open_seq2seq.data.audio.features import audio_features, normalized_audio
from tests.unit.data.audio import references

pytest.importorskip("python_speech_features")
KINDS = [("spectrogram", 160), ("spectrogram", 96), ("mfcc", 13), ("logfbank", 64)]


def worst_difference(clips, settings) -> float:
    """Largest difference of a feature; features of one frame have no deviation to be divided by."""
    worst = 0.0
    for clip in clips:
        ours, theirs = audio_features(normalized_audio(clip, None), settings), references.psf_reference(clip, settings)
        assert ours.shape == theirs.shape == (settings.num_frames(len(clip)), settings.num_features)
        usable = np.isfinite(theirs)
        worst = max(worst, float(np.abs(ours - theirs)[usable].max(initial=0.0)))
    return worst


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize(("kind", "count"), KINDS)
def test_made_up_clips(clips, kind, count, per_feature):
    assert worst_difference(clips, FeatureSettings(count, kind, "psf", norm_per_feature=per_feature)) < 1e-6


@pytest.mark.parametrize(("kind", "count"), KINDS)
def test_padded_signals(clips, kind, count):
    """NVIDIA's way to a multiple of ``pad_to``."""
    settings = FeatureSettings(count, kind, "psf", pad_signal=True, pad_to=16)
    assert worst_difference(clips, settings) < 1e-6
    assert settings.num_frames(len(clips[0])) % 16 == 0


@pytest.mark.parametrize("kind", ["spectrogram", "mfcc", "logfbank"])
@pytest.mark.parametrize("backend", ["psf", "librosa"])
def test_silence_has_finite_features(kind, backend):
    settings = FeatureSettings(13, kind, backend, norm_per_feature=True)
    features = audio_features(normalized_audio(np.zeros(4000), None), settings)
    assert np.abs(features).max() < 1e-6


def test_fixed_statistics_and_gain(clips):
    mean, deviation = np.arange(13.0), np.arange(1.0, 14.0)
    raw = FeatureSettings(13, "mfcc", "librosa", mean=np.zeros(()), std_dev=np.ones(()), gain=0.5)
    fixed = FeatureSettings(13, "mfcc", "librosa", mean=mean, std_dev=deviation, gain=0.5)
    audio = normalized_audio(clips[0], 0.5)
    assert np.allclose(audio, clips[0] * 0.5)
    assert np.allclose(audio_features(audio, fixed), (audio_features(audio, raw) - mean) / deviation, atol=1e-4)


@pytest.mark.parametrize("kind", ["spectrogram", "logfbank"])
@pytest.mark.parametrize("backend", ["psf", "librosa"])
def test_expected_power_of_dither_is_that_of_dither(kind, backend):
    """Over many draws, the power of dithered silence is what evaluation adds to silence."""
    settings = FeatureSettings(20, kind, backend, dither=0.01, mean=np.zeros(()), std_dev=np.ones(()))
    noise = 0.01 * np.random.default_rng(0).standard_normal(400_000)
    drawn = audio_features(noise.astype(np.float32), settings, dither_floor=False)
    expected = audio_features(np.zeros(3200, np.float32), settings)
    if (kind, backend) == ("spectrogram", "psf"):  # whose loudest bin is always 0 dB
        assert np.all(np.abs(expected - expected[:1]) < 1e-6)
        return
    decibels = 1.0 if kind == "spectrogram" else 10 / np.log(10)
    means = 10 * np.log10(np.mean(10 ** (drawn * decibels / 10), axis=0))
    assert np.abs(means[2:] - expected[5, 2:] * decibels).max() < 0.5


@pytest.mark.parametrize(("changes", "words"), [
    ({"num_features": 200, "input_type": "spectrogram"}, "only 161 frequencies"),
    ({"num_fft": 256}, "number of samples in a window, 320"),
    ({"window_stride": 0.0}, "at least one sample"),
    ({"window_size": 0.0}, "at least 2 samples"),
    ({"mean": np.zeros(3)}, "list of 64 numbers"),
    ({"std_dev": np.zeros(())}, "greater than 0"),
])
def test_settings_that_do_not_fit(changes, words):
    settings = FeatureSettings(**{"num_features": 64, "input_type": "logfbank", "backend": "librosa", **changes})
    assert any(words in problem for problem in settings.problems("data_layer_params"))


def test_empty_filters_are_noticed():
    assert "contain no frequency" in FeatureSettings(128, "logfbank", "psf").describe_empty_filters()
    assert FeatureSettings(64, "logfbank", "librosa").describe_empty_filters() is None
