"""Features in the graph against those of NumPy, and their independence of padding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.audio.feature_graph import AudioFeatures, masked_features
from open_seq2seq.data.audio.feature_settings import FeatureSettings
from open_seq2seq.data.audio.features import audio_features, normalized_audio
from open_seq2seq.parts.forward_pass import forward_pass

KINDS = [("spectrogram", 160), ("mfcc", 13), ("logfbank", 64)]
FLOOR_DECIBELS = -80.0
"""Below the loudest bin of an utterance, in power: what is weaker is rounding in single precision."""


def batch_of(clips, garbage: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.asarray([len(clip) for clip in clips], np.int32)
    audio = np.full([len(clips), int(lengths.max())], garbage, np.float32)
    for row, clip in zip(audio, clips, strict=True):
        row[:len(clip)] = clip
    return audio, lengths


def above_floor(clip, settings) -> np.ndarray:
    """Which values of a spectrogram are well above rounding; all of them where bins are added up."""
    raw = replace(settings, norm_per_feature=False, dither=0.0, mean=np.zeros(()), std_dev=np.ones(()))
    if settings.input_type != "spectrogram":
        return np.ones([settings.num_frames(len(clip)), settings.num_features], bool)
    decibels = audio_features(normalized_audio(clip, None), raw)
    return decibels > decibels.max() + FLOOR_DECIBELS


def worst_difference(clips, settings, fourier_by_matrix: bool) -> float:
    with forward_pass(portable=True, fourier_by_matrix=fourier_by_matrix):
        features, frames = AudioFeatures(settings)(*batch_of(clips))
    worst = 0.0
    for clip, ours, count in zip(clips, features.numpy(), frames.numpy(), strict=True):
        theirs = audio_features(normalized_audio(clip, None), settings)
        assert len(theirs) == count
        assert np.all(ours[count:] == 0)
        worst = max(worst, float(np.abs(ours[:count] - theirs)[above_floor(clip, settings)].max()))
    return worst


@pytest.mark.parametrize("fourier_by_matrix", [False, True])
@pytest.mark.parametrize("changes", [
    {"backend": "tf"}, {"backend": "tf", "norm_per_feature": True},
    {"backend": "tf", "dither": 1e-4, "window": "hamming"},
    {"backend": "psf"}, {"backend": "psf", "dither": 1e-4, "window": "hamming"},
    {"backend": "psf", "pad_signal": True, "pad_to": 16, "norm_per_feature": True}])
@pytest.mark.parametrize(("kind", "count"), KINDS)
def test_equals_numpy(clips, kind, count, changes, fourier_by_matrix):
    assert worst_difference(clips, FeatureSettings(count, kind, **changes), fourier_by_matrix) < 1e-3


def test_the_gain_is_that_of_numpy():
    """Audio is rounded to 16 bits by ``psf``: with another last bit, samples would be rounded to the other side."""
    random = np.random.default_rng(0)
    peaks = np.concatenate([[0.0], *(random.uniform(low, 2 * low, 10000) for low in (1e-3, 0.1, 0.5, 3e4))])
    audio = np.stack([peaks, 0.3 * peaks], 1).astype(np.float32)
    found = AudioFeatures(FeatureSettings(13, "mfcc"))._normalized(tf.constant(audio)).numpy()
    assert np.array_equal(found, [normalized_audio(row, None) for row in audio])


@pytest.mark.parametrize("backend", ["tf", "psf"])
@pytest.mark.parametrize(("kind", "count"), KINDS)
def test_neither_neighbours_nor_what_stands_behind_the_end_matter(clips, kind, count, backend):
    compute = AudioFeatures(FeatureSettings(count, kind, backend))
    together, frames = compute(*batch_of(clips, garbage=0.7))
    assert together.shape[1] % 8 == 0
    for place, clip in enumerate(clips):
        alone, _ = compute(*batch_of([clip]))
        count_alone = int(frames[place])
        assert np.abs(alone[0, :count_alone] - together[place, :count_alone]).max() < 1e-5


def test_empty_rows_give_no_frames(clips):
    features, frames = AudioFeatures(FeatureSettings(13, "mfcc", "tf"))(*batch_of([clips[0], clips[0][:0]]))
    assert frames.numpy().tolist()[1] == 0
    assert np.all(features[1] == 0)
    assert np.all(np.isfinite(features))


def test_fixed_statistics_and_gain(clips):
    settings = FeatureSettings(20, "logfbank", "tf", mean=np.linspace(-8, -4, 20), std_dev=np.asarray(3.0), gain=0.8)
    features, frames = AudioFeatures(settings)(*batch_of(clips[:2]))
    theirs = audio_features(normalized_audio(clips[1], 0.8), settings)
    assert np.abs(features[1, :int(frames[1])] - theirs).max() < 1e-3


def test_masks_are_rectangles():
    features = tf.ones([2, 6, 5])
    masks = tf.constant([[[0, 6, 1, 3], [2, 4, 0, 5]], [[0, 0, 0, 5], [5, 6, 0, 5]]])
    found = masked_features(features, masks).numpy()
    expected = np.ones([2, 6, 5])
    expected[0, :, 1:3] = expected[0, 2:4] = expected[1, 5] = 0
    assert np.array_equal(found, expected)
