"""What the libraries themselves give, put together as NVIDIA's OpenSeq2Seq did."""

from __future__ import annotations

import math

import numpy as np

from open_seq2seq.data.audio.feature_settings import FeatureSettings
from open_seq2seq.utils.librosa_import import import_librosa


def normalized(features: np.ndarray, per_feature: bool) -> np.ndarray:
    axis = 0 if per_feature else None
    return (features - features.mean(axis=axis)) / features.std(axis=axis)


def peak_normalized(audio: np.ndarray) -> np.ndarray:
    """16-bit audio with a peak of 1."""
    steps = (audio * 32768).astype(np.int16).astype(np.float32)
    return steps * np.float32(1.0 / (float(np.max(np.abs(steps))) + 1e-5))


def psf_reference(audio: np.ndarray, settings: FeatureSettings) -> np.ndarray:
    """Features by ``python_speech_features``."""
    import python_speech_features as psf

    signal = (peak_normalized(audio) * 32767.0).astype(np.int16)
    size, hop, count = settings.window_samples, settings.hop, settings.num_features
    if settings.pad_signal:
        length = 1 + max(0, math.ceil((len(signal) - size) / hop))
        signal = np.pad(signal, (0, -length % settings.pad_to * hop))
    if settings.input_type == "spectrogram":
        frames = psf.sigproc.framesig(signal, size, hop, winfunc=np.hanning)
        features = psf.sigproc.logpowspec(frames, size)[:, :count]
    elif settings.input_type == "mfcc":
        features = psf.mfcc(signal, settings.sample_freq, settings.window_size, settings.window_stride, count,
                            2 * count, 512, 0, None, 0.97, 2 * count, False)
    else:
        features = psf.logfbank(signal, settings.sample_freq, settings.window_size, settings.window_stride, count, 512,
                                0, settings.sample_freq / 2, 0.97)
    return normalized(features, settings.norm_per_feature)


def librosa_reference(audio: np.ndarray, settings: FeatureSettings, dtype: type = np.float32) -> np.ndarray:
    """Features by ``librosa``; in single precision, as the original, or in double."""
    librosa = import_librosa()

    signal = peak_normalized(audio).astype(dtype)
    window = {"hanning": np.hanning, "hamming": np.hamming, "none": np.ones}[settings.window or "hanning"]
    count, rate, points = settings.num_features, settings.sample_freq, settings.fft_points
    if settings.input_type != "spectrogram":
        signal = np.append(signal[:1], signal[1:] - dtype(0.97) * signal[:-1])
    # Padded here as center=True, pad_mode="reflect" asks for: where the end falls on a window's start, librosa 0.11
    # itself takes its last sample from the wrong place, which shows with windows that do not end in zero.
    signal = np.pad(signal, points // 2, mode="reflect")
    spectrum = librosa.stft(signal, n_fft=points, hop_length=settings.hop, win_length=settings.window_samples,
                            window=window, center=False)
    power = np.abs(spectrum) ** 2
    if settings.input_type == "spectrogram":
        return normalized(10 * np.log10(np.maximum(power, 1e-30)).T[:, :count], settings.norm_per_feature)
    filters = librosa.filters.mel(sr=rate, n_fft=points, n_mels=count * (2 if settings.input_type == "mfcc" else 1),
                                  fmin=0, fmax=rate / 2)
    if settings.input_type == "logfbank":
        return normalized(np.log(filters @ power + 1e-20).T, settings.norm_per_feature)
    decibels = librosa.power_to_db(filters @ power)
    return normalized(librosa.feature.mfcc(S=decibels, sr=rate, n_mfcc=count).T, settings.norm_per_feature)
