"""Griffin-Lim and the inversion of mel spectrograms against librosa; examples of a batch against the same alone."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.audio.feature_settings import htk_mel_filters
from open_seq2seq.decoding.vocoder import (
    griffin_lim,
    joined_folds,
    mel_to_magnitude,
    overlapping_folds,
    with_mel_values,
)
from open_seq2seq.utils.librosa_import import import_librosa
from tests.unit.data.audio.conftest import speech_like

librosa = import_librosa()
POINTS, HOP = 256, 64


def magnitudes_of(audio: np.ndarray) -> np.ndarray:
    return np.abs(librosa.stft(audio, n_fft=POINTS, hop_length=HOP)).T


def convergence(audio: np.ndarray, magnitudes: np.ndarray) -> float:
    """The distance of the audio's magnitudes from the given ones in dB."""
    return 20 * np.log10(np.linalg.norm(magnitudes_of(audio) - magnitudes) / np.linalg.norm(magnitudes))


@pytest.fixture(scope="module")
def magnitudes() -> np.ndarray:
    return magnitudes_of(speech_like(0.25, 1))


def test_griffin_lim_is_librosas(magnitudes):
    def both(iterations):
        ours = griffin_lim(magnitudes[None], [len(magnitudes)], iterations, phases=tf.zeros([]))[0].numpy()
        return ours, librosa.griffinlim(magnitudes.T, n_iter=iterations, init=None)

    np.testing.assert_allclose(*both(10), rtol=0, atol=1e-4)
    ours, theirs = both(60)
    assert convergence(ours, magnitudes) == pytest.approx(convergence(theirs, magnitudes), abs=0.1)


def test_a_batch_is_its_examples_alone(magnitudes):
    lengths = [20, len(magnitudes), 1, 0]
    batch = np.random.default_rng(0).random([4, len(magnitudes) + 8, POINTS // 2 + 1], np.float32)
    batch[:, :len(magnitudes)] = magnitudes
    audio = tf.function(griffin_lim)(tf.constant(batch), tf.constant(lengths), 4, seed=3).numpy()
    assert audio.shape == (4, (batch.shape[1] - 1) * HOP)
    for row, length in zip(audio, lengths, strict=True):
        alone = griffin_lim(magnitudes[None, :length], [length], 4, seed=3)[0].numpy()
        np.testing.assert_allclose(row, np.pad(alone, (0, len(row) - len(alone))), rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3), (1, 0), (0, 0)])
def test_no_clips_and_no_frames_are_no_samples(shape):
    audio = tf.function(griffin_lim)(tf.zeros([*shape, POINTS // 2 + 1]), tf.zeros([shape[0]], tf.int32), 2)
    assert audio.shape == (shape[0], max(shape[1] - 1, 0) * HOP)


@pytest.mark.parametrize("power", [1, 2])
def test_inverted_mel_is_as_good_as_librosas(magnitudes, power):
    basis = htk_mel_filters(16000, POINTS, 30).astype(np.float32)
    values = magnitudes[:12] ** power
    ours = mel_to_magnitude(values @ basis.T, basis).numpy()
    theirs = librosa.util.nnls(basis, basis @ values.T).T
    assert ours.min() >= 0
    np.testing.assert_allclose(ours @ basis.T, values @ basis.T, atol=1e-3 * values.max())

    def error(inverted):
        return 20 * np.log10(np.linalg.norm(inverted ** (1 / power) - magnitudes[:12]))

    assert error(ours) <= error(theirs) + 1


def test_silence(magnitudes):
    assert not griffin_lim(tf.zeros_like(magnitudes)[None], [len(magnitudes)], 3).numpy().any()
    assert not mel_to_magnitude(tf.zeros([1, 3, 30]), htk_mel_filters(16000, POINTS, 30), 3).numpy().any()


@pytest.mark.parametrize("frames", [5, 16, 21])
def test_folds_are_joined_to_what_they_were(frames):
    hop, size = 3, 8
    values = np.random.default_rng(frames).normal(size=[2, frames, 1]).astype(np.float32)
    folds = overlapping_folds(tf.constant(values), tf.constant([9.0]), size)
    sound = tf.repeat(folds[:, :, 0], hop, axis=1)  # what does not depend on the fold is the same on both sides
    joined = joined_folds(sound, tf.shape(values), size, hop)
    np.testing.assert_allclose(joined, np.repeat(values[:, :, 0], hop, axis=1), rtol=1e-5, atol=1e-6)


def test_fitted_spectra_have_the_mel_values_and_keep_their_details(magnitudes):
    basis = htk_mel_filters(16000, POINTS, 20).astype(np.float32)
    comb = 1.0 + 0.8 * np.cos(np.arange(POINTS // 2 + 1))
    mel = magnitudes @ basis.T
    given = np.tile(comb, [1, len(magnitudes), 1]).astype(np.float32)
    fitted = with_mel_values(tf.constant(given), tf.constant(mel[None]), basis, 1e-6, 20).numpy()
    np.testing.assert_allclose(fitted[0] @ basis.T, mel, rtol=0.15, atol=1e-3 * mel.max())
    filtered = basis.sum(0) > 0
    steps = np.diff(np.log(fitted[0, :, filtered]), axis=0).mean(1)
    assert np.corrcoef(steps, np.diff(np.log(comb[filtered])))[0, 1] > 0.8
    np.testing.assert_array_equal(fitted[..., ~filtered], given[..., ~filtered])
    below = with_mel_values(tf.constant(given), tf.fill([1, *mel.shape], 100.0), basis, 100.0, 3)
    np.testing.assert_array_equal(below, given)  # values at the floor may be less
