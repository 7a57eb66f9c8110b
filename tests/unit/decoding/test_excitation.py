"""Pitch from mel spectrograms, pulses at a pitch, and their transforms, against NumPy, librosa and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
import tensorflow as tf

from open_seq2seq.data.audio.synthesis_features import SpectrogramSettings, spectrogram
from open_seq2seq.decoding.vocoder import excitations, griffin_lim, pitch_of_mel, pulses, spectra_of_hops
from open_seq2seq.utils.librosa_import import import_librosa

librosa = import_librosa()
RATE, POINTS, HOP = 22050, 1024, 256
SETTINGS = SpectrogramSettings(data_min=1e-2, mag_power=1, mean=-1.3, std_dev=1.6)


def harmonics(pitch: np.ndarray) -> np.ndarray:
    """Returns the sum of the harmonics below half the rate of a pitch in Hz at each sample, integrated by NumPy."""
    phase = 2 * np.pi * np.concatenate([[0.0], np.cumsum((pitch[1:] + pitch[:-1]) / 2 / RATE)])
    numbers = np.arange(1, 400)[:, None]
    return np.where(numbers * pitch <= RATE / 2, np.cos(numbers * phase), 0.0).sum(0)


def test_pulses_are_the_sum_of_the_harmonics():
    frames = np.array([110.0, 130.0, 126.0, 180.0, 350.0])
    sound = pulses(tf.constant(frames[None], tf.float32), HOP, RATE).numpy().reshape(-1)
    samples = np.interp(np.arange(4 * HOP), np.arange(5) * HOP, frames)
    expected = harmonics(samples)
    differ = np.abs(sound - expected) > 0.05 * np.abs(expected).max()
    assert differ.mean() < 0.01  # the highest harmonic begins or ends a sample earlier


def test_pulses_do_not_become_rough_in_long_clips():
    spectra, _ = excitations(tf.fill([1, 20000], 187.3), tf.constant([20000]), POINTS, RATE)
    early, late = (np.abs(spectra[0, frames]) for frames in (slice(10, 60), slice(19900, 19950)))
    np.testing.assert_allclose(late, early, atol=0.02)


@pytest.mark.parametrize("pitch", [71.0, 97.3, 150.0, 211.7, 390.0])
def test_the_pitch_of_a_voice_is_found(pitch):
    time = np.arange(RATE // 4) / RATE
    numbers = np.arange(1, int(4000 / pitch))[:, None]
    sound = 0.1 * (np.cos(2 * np.pi * numbers * pitch * time + numbers) / np.sqrt(numbers)).sum(0)
    mel = SETTINGS.mel_values(tf.constant(spectrogram(sound, SETTINGS)[None]))
    result, strength = pitch_of_mel(mel, SETTINGS.mel_basis, RATE)
    np.testing.assert_allclose(result[0, 3:-3], pitch, rtol=0.025)
    assert 0.15 < strength.numpy()[0, 3:-3].min() <= strength.numpy().max() <= 1.0


def test_spectra_are_those_of_scipy_and_librosa():
    audio = np.random.default_rng(0).normal(size=12 * HOP).astype(np.float32)
    spectra = spectra_of_hops(tf.constant(audio.reshape(1, 12, HOP))).numpy()[0]
    expected = librosa.stft(audio, n_fft=POINTS, hop_length=HOP, pad_mode="constant").T
    np.testing.assert_allclose(spectra, expected, atol=1e-3)
    window = scipy.signal.get_window("hann", POINTS)
    *_, theirs = scipy.signal.stft(audio, window=window, nperseg=POINTS, noverlap=POINTS - HOP, padded=False)
    np.testing.assert_allclose(spectra, theirs.T * window.sum(), atol=1e-3)


def test_the_inverse_transform_is_that_of_scipy_and_librosa():
    rng = np.random.default_rng(0)
    spectra = (rng.normal(size=[13, 513]) + 1j * rng.normal(size=[13, 513])).astype(np.complex64)
    spectra[:, [0, -1]] = spectra[:, [0, -1]].real
    ours = griffin_lim(np.abs(spectra)[None], [13], 0, phases=tf.constant(spectra / np.abs(spectra))[None])[0].numpy()
    theirs = librosa.istft(spectra.T, n_fft=POINTS, hop_length=HOP, length=12 * HOP)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    window = scipy.signal.get_window("hann", POINTS)
    _, other = scipy.signal.istft(spectra.T / window.sum(), window=window, nperseg=POINTS, noverlap=POINTS - HOP)
    np.testing.assert_allclose(ours, other[:12 * HOP], atol=1e-5)
    again = griffin_lim(np.abs(spectra)[None], [13], 0, phases=tf.constant(np.angle(spectra))[None])[0].numpy()
    np.testing.assert_allclose(ours, again, atol=1e-5)


def test_a_harmonic_has_a_magnitude_of_1_and_noise_is_alike_in_all_examples():
    voiced, noise = excitations(tf.fill([2, 20], 10 * RATE / POINTS), tf.constant([20, 12]), POINTS, RATE)
    np.testing.assert_allclose(np.abs(voiced[0, 4:-4, 10:500:10]), 1.0, rtol=0.02)
    assert np.abs(voiced[0, 4:-4, 15:500:10]).max() < 0.02
    np.testing.assert_allclose(noise[0, :9], noise[1, :9], atol=1e-6)
    assert not np.abs(noise[1, 14:]).any() and not np.abs(voiced[1, 14:]).any()


def test_the_noise_has_even_magnitudes():
    _, noise = excitations(tf.fill([1, 300], 150.0), tf.constant([300]), POINTS, RATE)
    levels = 20 * np.log10(np.abs(noise[0, 4:-4, 4:-4]))
    assert levels.std() < 1.5
    white = np.abs(librosa.stft(np.random.default_rng(0).normal(size=300 * HOP), n_fft=POINTS))
    assert (20 * np.log10(white)).std() == pytest.approx(5.57, abs=0.1)
