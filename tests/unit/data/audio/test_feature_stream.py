"""Features of audio in pieces: those of the whole, however it is cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from open_seq2seq.data.audio.feature_settings import FeatureSettings
from open_seq2seq.data.audio.features import FeatureStream, audio_features, normalized_audio

RATE = 8000
KINDS = [(backend, kind) for backend in ("psf", "librosa") for kind in ("spectrogram", "mfcc", "logfbank")]
FIXED: dict[str, Any] = {"gain": 0.7, "mean": np.float64(-3.0), "std_dev": np.float64(5.0)}


def settings(backend: str = "librosa", kind: str = "logfbank", **others: Any) -> FeatureSettings:
    return FeatureSettings(20, kind, backend, RATE, **{"dither": 1e-4, **others})


def speech(seed: int, seconds: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    loudness = np.repeat(rng.uniform(0.0, 0.3, int(seconds * 20) + 1), RATE // 20)[:int(seconds * RATE)]
    return (loudness * rng.normal(size=len(loudness))).clip(-1, 1).astype(np.float32)


def cut(audio: np.ndarray, seed: int, longest: int = 900) -> Iterator[np.ndarray]:
    rng, begin = np.random.default_rng(seed), 0
    while begin < len(audio):
        length = int(rng.integers(0, longest))
        yield audio[begin:begin + length]
        begin += length


def offline(audio: np.ndarray, used: FeatureSettings) -> np.ndarray:
    return audio_features(normalized_audio(audio, used.gain), used)


@pytest.mark.parametrize("samples", [1, 2, 50, 79, 80, 81, 159, 160, 161, 239, 240, 241, 5000, 8001])
@pytest.mark.parametrize(("backend", "kind"), KINDS)
@pytest.mark.parametrize("others", [{}, FIXED, {"norm_per_feature": True, "num_fft": 512, "window_size": 0.025}])
def test_in_the_end_they_are_those_of_the_whole(backend: str, kind: str, samples: int, others: dict[str, Any]):
    used, audio = settings(backend, kind, **others), speech(samples, 2.0)[:samples]
    stream = FeatureStream(used)
    for piece in cut(audio, samples):
        stream.append(piece)
        assert len(stream.features()) == stream.end
    stream.finish()
    found = stream.features()
    np.testing.assert_allclose(found, offline(audio, used), rtol=1e-4, atol=1e-4)
    assert len(found) == stream.end == used.num_frames(samples)


def test_a_signal_padded_by_zeros_is_so_at_its_end():
    used, audio = settings("psf", pad_signal=True, pad_to=16), speech(0)
    stream = FeatureStream(used)
    stream.append(audio)
    assert len(stream.features()) == (len(audio) - 160) // 80 + 1
    stream.finish()
    np.testing.assert_allclose(stream.features(), offline(audio, used), rtol=1e-4, atol=1e-4)
    assert stream.end % 16 == 0


@pytest.mark.parametrize(("backend", "kind"), [(b, k) for b, k in KINDS if (b, k) not in
                                               (("psf", "spectrogram"), ("librosa", "mfcc"))])
def test_with_fixed_statistics_a_frame_never_changes(backend: str, kind: str):
    used, audio = settings(backend, kind, **FIXED), speech(1)
    whole, stream = offline(audio, used), FeatureStream(used)
    for piece in cut(audio, 2):
        stream.append(piece)
        np.testing.assert_allclose(stream.features(), whole[:stream.end], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["psf", "librosa"])
@pytest.mark.parametrize("held", [1, 7, 40])
def test_forgetting_changes_no_frame_that_is_held(backend: str, held: int):
    used, audio = settings(backend, **FIXED), speech(3)
    whole, stream = offline(audio, used), FeatureStream(used)
    for piece in cut(audio, 4):
        stream.append(piece)
        np.testing.assert_allclose(stream.features(), whole[stream.first:stream.end], rtol=1e-5, atol=1e-5)
        stream.forget(stream.end - held)
        assert len(stream._audio) < (held + 3) * used.hop + 2 * used.window_samples + 900
    stream.finish()
    np.testing.assert_allclose(stream.features(), whole[stream.first:], rtol=1e-5, atol=1e-5)
    assert stream.first > 0 and stream.end == len(whole)


def test_what_is_held_normalises():
    used, audio = settings(gain=1.0, norm_per_feature=True), speech(5)
    stream = FeatureStream(used)
    stream.append(audio)
    stream.features()
    stream.forget(60)
    found = stream.features()
    raw = offline(audio, settings(gain=1.0, mean=np.float64(0), std_dev=np.float64(1)))[60:stream.end]
    np.testing.assert_allclose(found, (raw - raw.mean(0)) / raw.std(0), rtol=1e-3, atol=1e-3)


def test_a_louder_sound_scales_what_was_before():
    used = settings(norm_per_feature=False, mean=np.float64(0), std_dev=np.float64(1), dither=0.0)
    stream = FeatureStream(used)
    stream.append(0.1 * speech(6))
    before = stream.features()
    stream.append(np.full(80, 0.9, np.float32))
    after = stream.features()[:len(before) - 3]
    peak = float(np.abs(0.1 * speech(6)).max())
    np.testing.assert_allclose(before[:-3] - after, 2 * np.log(0.9 / peak), rtol=1e-3)


def test_nothing_heard_has_no_features():
    stream = FeatureStream(settings())
    assert stream.features().shape == (0, 20)
    stream.forget(5)
    stream.finish()
    assert stream.features().shape == (0, 20) and stream.first == stream.end == 0


def test_silence_is_no_number_by_zero():
    stream = FeatureStream(settings(dither=0.0))
    stream.append(np.zeros(1000, np.float32))
    assert np.isfinite(stream.features()).all()
