"""Spectrograms for synthesis against librosa, put together as NVIDIA's OpenSeq2Seq did, and the way back to sound."""

from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.data.audio.synthesis_features import SpectrogramSettings, loud_range, spectrogram, to_sound
from open_seq2seq.utils.librosa_import import import_librosa
from tests.unit.data.audio.conftest import speech_like

librosa = import_librosa()
AUDIO = speech_like(0.3, 2)
FLOORS = {"mel": 1e-2, "magnitude": 1e-5}


def librosa_values(settings: SpectrogramSettings) -> np.ndarray:
    """Mel and magnitude columns before the logarithm."""
    power = np.abs(librosa.stft(AUDIO, n_fft=settings.n_fft, hop_length=settings.n_fft // 4, pad_mode="reflect"))
    power = power ** settings.mag_power
    is_htk = settings.mel_type == "htk"
    basis = librosa.filters.mel(sr=settings.sample_freq, n_fft=settings.n_fft, n_mels=settings.num_mels, htk=is_htk,
                                norm=None if is_htk else "slaney", fmax=settings.fmax)
    return np.concatenate([basis @ power, power[:settings.num_bins]]).T


@pytest.mark.parametrize("changes", [
    {"mag_power": 1.0, "data_min": 1e-2}, {"mel_type": "slaney"}, {"mel_type": "slaney", "fmax": 6000.0},
    {"fmax": 7000.0, "mean": -3.0, "std_dev": 2.0}, {"sample_freq": 16000, "n_fft": 800, "num_mels": 40},
], ids=str)
def test_mel_columns(changes):
    settings = SpectrogramSettings(**changes)
    values = np.log(np.maximum(librosa_values(settings)[:, :settings.num_mels], settings.data_min))
    ours = spectrogram(AUDIO, settings)
    assert ours.shape == (settings.frames(len(AUDIO)), settings.num_columns) and ours.dtype == np.float32
    np.testing.assert_allclose(ours, (values - settings.mean) / settings.std_dev, rtol=0, atol=1e-4)


@pytest.mark.parametrize("exp_mag", [False, True])
def test_both_kinds_of_columns(exp_mag):
    settings = SpectrogramSettings("both", num_bins=400, mag_power=1.0, data_min=FLOORS, exp_mag=exp_mag)
    values = np.maximum(librosa_values(settings), np.repeat([1e-2, 1e-5], [80, 400]))
    logarithms = np.log(values)
    expected = np.concatenate([logarithms[:, :80], (values if exp_mag else logarithms)[:, 80:]], axis=1)
    np.testing.assert_allclose(spectrogram(AUDIO, settings), expected, rtol=0, atol=1e-4)


def test_padding_is_silence():
    settings = SpectrogramSettings("both", data_min=FLOORS, exp_mag=True, n_fft=800, num_bins=401)
    np.testing.assert_allclose(settings.padding, spectrogram(np.zeros(10), settings)[0])
    np.testing.assert_allclose(settings.padding[[0, -1]], [np.log(1e-2), 1e-5], rtol=1e-6)
    assert SpectrogramSettings(data_min=1.0, mean=1.0, std_dev=2.0).padding.tolist() == [-0.5] * 80


def test_silence_is_loud_range():
    silence = np.zeros(8000, np.float32)
    start, end = loud_range(np.concatenate([silence, AUDIO, silence]), SpectrogramSettings())
    assert 7250 < start <= 8000 and 8000 + len(AUDIO) <= end < 8750 + len(AUDIO)


@pytest.mark.parametrize("settings", [
    SpectrogramSettings(mag_power=1.0, data_min=1e-2, mean=-3.0, std_dev=2.0),
    SpectrogramSettings("magnitude", mag_power=2.0, data_min=1e-8),
    SpectrogramSettings("both", mag_power=1.0, data_min=FLOORS, exp_mag=True, num_bins=500),
], ids=["mel", "magnitude", "both"])
def test_the_way_back(settings):
    columns = spectrogram(0.5 * AUDIO, settings)
    audio = to_sound(columns[None], [len(columns)], settings, iterations=30)[0].numpy()
    assert len(audio) == (len(columns) - 1) * settings.hop
    rebuilt, original = spectrogram(audio, settings), columns
    assert np.mean(np.abs(rebuilt - original)) < 0.15 * np.std(original)


def test_loud_audio_is_scaled():
    settings = SpectrogramSettings("magnitude", mag_power=1.0)
    columns = np.stack([spectrogram(gain * AUDIO, settings) for gain in (0.1, 50.0)])
    quiet, loud = np.abs(to_sound(columns, [columns.shape[1]] * 2, settings, iterations=2).numpy()).max(axis=1)
    assert quiet < 0.2 and loud == pytest.approx(0.99, abs=1e-5)
