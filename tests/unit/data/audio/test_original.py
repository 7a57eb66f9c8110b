"""Features of speech recognition and synthesis are those of NVIDIA's OpenSeq2Seq.

``original.npz`` has some of the frames that the original computed, and its parameters.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.fft

from open_seq2seq.data.audio.audio_files import resampled
from open_seq2seq.data.audio.feature_settings import FeatureSettings
from open_seq2seq.data.audio.features import audio_features, frame_values, normalized_audio
from open_seq2seq.data.audio.synthesis_features import SpectrogramSettings, spectrogram
from open_seq2seq.data.speech2text.augmentation import stretched_length
from open_seq2seq.decoding.vocoder import mel_to_magnitude

ARRAYS = dict(np.load(Path(__file__).with_name("original.npz")))
PARAMS: dict[str, dict[str, Any]] = json.loads(str(ARRAYS["params"]))
RECOGNITION, SYNTHESIS = PARAMS["recognition"], PARAMS["synthesis"]
AUDIO = ARRAYS["signal"].astype(np.float32) / 32768.0
# Those that differ; see docs/migrating.md.
DIFFERENT = ("librosa.mfcc", "librosa.logfbank_speed0.9")
NAMES = {"num_audio_features": "num_features", "features_mean": "mean", "features_std_dev": "std_dev"}
EVERY = slice(3, None, 60)  # the frames in the file


def settings_of(name: str) -> FeatureSettings:
    given = {NAMES.get(key, key): value for key, value in RECOGNITION[name].items() if key not in (
        "augmentation", "frames")}
    return FeatureSettings(**given, pad_signal=given["backend"] == "psf")


@pytest.mark.parametrize("name", sorted({*RECOGNITION} - {*DIFFERENT}))
def test_features_of_recognition(name: str):
    settings = settings_of(name)
    gain = None if settings.gain is None else settings.gain * 32768.0  # of 16-bit numbers, there
    ours = audio_features(normalized_audio(AUDIO, gain), settings)
    assert len(ours) == RECOGNITION[name]["frames"]
    np.testing.assert_allclose(ours[EVERY], ARRAYS[name], rtol=0, atol=1e-6 if settings.backend == "psf" else 2e-4)


def test_mfcc_of_librosa_is_the_transform_of_the_power_itself_there():
    settings, theirs = settings_of("librosa.mfcc"), ARRAYS["librosa.mfcc"]
    ours = audio_features(normalized_audio(AUDIO, None), settings)
    assert 1.0 < np.abs(ours[EVERY] - theirs).mean() < 1.5
    decibels = frame_values(_emphasized(normalized_audio(AUDIO, None)), replace(
        settings, input_type="spectrogram", num_features=257, num_fft=settings.fft_points), range(len(ours)))
    transform = scipy.fft.dct(10.0 ** (decibels / 10.0), norm="ortho")[:, :settings.num_features]
    np.testing.assert_allclose(((transform - transform.mean()) / transform.std())[EVERY], theirs, rtol=0, atol=1e-5)


def _emphasized(audio: np.ndarray) -> np.ndarray:
    return np.append(audio[:1], audio[1:] - np.float64(0.97) * audio[:-1])


def test_perturbed_speed_differs_by_the_filter_only():
    name = "librosa.logfbank_speed0.9"
    faster = resampled(normalized_audio(AUDIO, None), 1.0, 0.9, int(stretched_length(len(AUDIO), 0.9)))
    ours = audio_features(normalized_audio(faster, None), settings_of(name))
    assert len(ours) == RECOGNITION[name]["frames"]
    assert np.abs(ours[EVERY] - ARRAYS[name]).mean() < 0.02


def columns(name: str) -> np.ndarray:
    """Our spectrogram of the frames in the file."""
    given = SYNTHESIS[name]
    kind = given["features_type"].removesuffix("_slaney")
    settings = SpectrogramSettings(
        kind, mag_power=given["mag_power"], data_min=given.get("data_min", 1e-5), mean=given.get("mean", 0.0),
        std_dev=given.get("std", 1.0), mel_type="slaney" if "slaney" in name else "htk")
    return spectrogram(ARRAYS["synthesis.signal"], settings)[2:7:4]


@pytest.mark.parametrize("name", SYNTHESIS)
def test_features_of_synthesis(name: str):
    ours = columns(name)
    theirs = (np.concatenate([ARRAYS["synthesis.both.mel"], ARRAYS["synthesis.magnitude"]], axis=1) if name == "both"
              else ARRAYS[f"synthesis.{name}"])
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6)


def test_mel_columns_from_magnitudes_are_those_of_the_audio():
    np.testing.assert_allclose(columns("mel_htk"), ARRAYS["synthesis.get_mel"], rtol=0, atol=2e-6)


def test_magnitudes_from_mel_columns_are_nearer_than_those_of_the_transposed_filters_there():
    mel, magnitude = (np.exp(ARRAYS[f"synthesis.{name}"]) for name in ("mel_htk", "magnitude"))
    basis = SpectrogramSettings(mag_power=1).mel_basis
    theirs, ours = ARRAYS["synthesis.inverse_mel"], mel_to_magnitude(mel[np.newaxis], basis)[0].numpy()
    np.testing.assert_allclose(theirs, mel @ basis, rtol=1e-5)
    errors = [float(np.linalg.norm(one - magnitude) / np.linalg.norm(magnitude)) for one in (ours, theirs)]
    assert errors[0] < 0.4 and errors[1] > 1.0, errors
