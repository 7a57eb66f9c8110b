"""Spectrograms that speech is synthesised from, and the way back to sound."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.audio.feature_settings import htk_mel_filters, slaney_mel_filters
from open_seq2seq.data.audio.features import centred_power
from open_seq2seq.decoding.vocoder import griffin_lim, mel_to_magnitude
from open_seq2seq.utils.librosa_import import import_librosa

_LOUDEST = 0.99
"""Peak to which louder audio is scaled, so that it is not clipped in 16 bits."""

_OF_MEL = ("num_mels", "sample_freq", "n_fft", "mag_power", "mel_type", "fmax")  # what mel columns depend on


@dataclass(frozen=True, eq=False)
class SpectrogramSettings:
    """The settings of spectrograms, and the sizes and filters derived from them.

    Attributes:
      output_type: ``mel``, ``magnitude``, or ``both``: mel columns followed by magnitude columns.
      num_mels: number of mel columns, unless ``output_type`` is ``magnitude``.
      num_bins: number of magnitude columns, the lowest frequencies, unless ``output_type`` is ``mel``.
      sample_freq: sampling rate in Hz.
      n_fft: length of a frame in samples; the next frame starts a quarter of that later.
      mag_power: power to which magnitudes are raised: 1 or 2.
      mel_type: ``htk`` for filters of height 1, ``slaney`` for Slaney's filters of equal area.
      fmax: upper edge of the last mel filter in Hz; None for half the sampling rate.
      data_min: smallest value before the logarithm; one number, or one each for ``mel`` and ``magnitude``.
      exp_mag: whether the magnitude columns of ``both`` are left without the logarithm.
      mean: number to subtract from the columns.
      std_dev: number to divide the columns by.
    """

    output_type: str = "mel"
    num_mels: int = 80
    num_bins: int = 513
    sample_freq: int = 22050
    n_fft: int = 1024
    mag_power: float = 2.0
    mel_type: str = "htk"
    fmax: float | None = None
    data_min: float | Mapping[str, float] = 1e-5
    exp_mag: bool = False
    mean: float = 0.0
    std_dev: float = 1.0

    @property
    def hop(self) -> int:
        """Number of samples from one frame to the next."""
        return self.n_fft // 4

    @property
    def mel_columns(self) -> int:
        """Number of columns with mel values, which come first."""
        return 0 if self.output_type == "magnitude" else self.num_mels

    @property
    def num_columns(self) -> int:
        """Number of columns of a spectrogram."""
        return self.mel_columns + (0 if self.output_type == "mel" else self.num_bins)

    @property
    def features(self) -> int | dict[str, int]:
        """Number of columns; for ``both``, a dict of the numbers of ``mel`` and ``magnitude`` columns."""
        both = {"mel": self.num_mels, "magnitude": self.num_bins}
        return both if self.output_type == "both" else both[self.output_type]

    @functools.cached_property
    def mel_basis(self) -> np.ndarray:
        """The mel filters ``[num_mels, n_fft // 2 + 1]``, float32."""
        make = slaney_mel_filters if self.mel_type == "slaney" else htk_mel_filters
        return make(self.sample_freq, self.n_fft, self.num_mels, fmax=self.fmax).astype(np.float32)

    @functools.cached_property
    def padding(self) -> np.ndarray:
        """The columns of a silent frame ``[num_columns]``, float32."""
        return self._finished(np.zeros([1, self.num_columns]))[0]

    def frames(self, samples: Any) -> Any:
        """Returns the number of frames for ``samples``, an integer or an array of integers."""
        return 1 + samples // self.hop

    def smallest(self, kind: str) -> float:
        """Returns the smallest value before the logarithm for a ``kind`` of columns, ``mel`` or ``magnitude``."""
        return self.data_min[kind] if isinstance(self.data_min, Mapping) else self.data_min

    def differences(self, other: SpectrogramSettings) -> list[str]:
        """Returns the settings in which mel columns differ, such as ``n_fft 512 instead of 1024``.

        Mean and standard deviation are left out.
        """
        own, others = ({**{name: getattr(one, name) for name in _OF_MEL}, "data_min": one.smallest("mel")}
                       for one in (self, other))
        return [f"{name} {own[name]} instead of {others[name]}" for name in own if own[name] != others[name]]

    def mel_values(self, columns: tf.Tensor) -> tf.Tensor:
        """Returns the mel columns of spectrograms ``[…, num_columns]`` without logarithm and normalisation."""
        return tf.exp(columns[..., :self.mel_columns] * self.std_dev + self.mean)

    def _finished(self, values: np.ndarray) -> np.ndarray:
        """Applies logarithm and normalisation to non-negative values ``[frames, num_columns]``."""
        mel, magnitude = values[:, :self.mel_columns], values[:, self.mel_columns:]
        magnitude = np.maximum(magnitude, self.smallest("magnitude")) if magnitude.size else magnitude
        columns = np.concatenate([np.log(np.maximum(mel, self.smallest("mel"))) if mel.size else mel,
                                  magnitude if self.exp_mag else np.log(magnitude)], axis=1)
        return ((columns - self.mean) / self.std_dev).astype(np.float32)


def spectrogram(audio: np.ndarray, settings: SpectrogramSettings) -> np.ndarray:
    """Computes the spectrogram of one utterance.

    Args:
      audio: ``[samples]``, at least one, at the sampling rate of the settings.
      settings: the settings.

    Returns:
      float32 ``[1 + samples // hop, num_columns]``.
    """
    values = centred_power(audio, settings.n_fft, settings.hop) ** (settings.mag_power / 2)
    parts = []
    if settings.output_type != "magnitude":
        parts.append(values @ settings.mel_basis.T)
    if settings.output_type != "mel":
        parts.append(values[:, :settings.num_bins])
    return settings._finished(np.concatenate(parts, axis=1))


def loud_range(audio: np.ndarray, settings: SpectrogramSettings) -> tuple[int, int]:
    """Returns the range of audio ``[samples]`` without the beginning and end 60 dB below its loudest frame.

    Returns:
      numbers of the first sample, and of the one after the last.
    """
    librosa = import_librosa()
    _, edges = librosa.effects.trim(audio, frame_length=settings.n_fft // 2, hop_length=settings.n_fft // 8)
    return int(edges[0]), int(edges[1])


def to_sound(columns: tf.Tensor, lengths: tf.Tensor, settings: SpectrogramSettings, iterations: int = 60) -> tf.Tensor:
    """Returns audio whose spectrograms are similar to the given ones.

    Of ``both``, the magnitude columns are used. Louder audio is scaled to a peak of 0.99.

    Args:
      columns: spectrograms ``[batch, frames, num_columns]``.
      lengths: number of frames ``[batch]``.
      settings: the settings with which the spectrograms were computed.
      iterations: number of iterations of ``griffin_lim``.

    Returns:
      float32 ``[batch, (frames - 1) * hop]``, 0 after the ``(length - 1) * hop`` samples of each example.
    """
    values = tf.cast(columns, tf.float32) * settings.std_dev + settings.mean
    if settings.output_type == "mel":
        magnitudes = mel_to_magnitude(tf.exp(values), settings.mel_basis)
    else:
        magnitudes = values[:, :, settings.mel_columns:]
        magnitudes = tf.nn.relu(magnitudes) if settings.exp_mag else tf.exp(magnitudes)
        magnitudes = tf.pad(magnitudes, [[0, 0], [0, 0], [0, settings.n_fft // 2 + 1 - settings.num_bins]])
    audio = griffin_lim(magnitudes ** (1 / settings.mag_power), lengths, iterations)
    return within_range(audio)


def within_range(audio: tf.Tensor) -> tf.Tensor:
    """Returns audio ``[batch, samples]``, of which louder examples are scaled to a peak of 0.99."""
    peaks = tf.reduce_max(tf.abs(audio), axis=1, keepdims=True)
    return audio * (_LOUDEST / tf.maximum(peaks, _LOUDEST))
