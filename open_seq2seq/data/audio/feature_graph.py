"""Features of a padded batch in TensorFlow: the backend ``tf``, and all backends in exported models."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from open_seq2seq.data.audio.feature_settings import PEAK_EPSILON, PREEMPHASIS, SMALLEST_DEVIATION, FeatureSettings
from open_seq2seq.data.audio.features import (
    DECIBEL_EPSILON,
    DECIBEL_RANGE,
    EMPTY_FILTER,
    FULL_SCALE,
    LOG_EPSILON,
    TINY_POWER,
)
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.portable import in_shape


class AudioFeatures:
    """Computes features from audio in the graph of training steps and exported models.

    The values are those of ``features.audio_features`` up to rounding; for the backend ``tf``, those of ``librosa``.
    An utterance's features do not depend on the other utterances of the batch.

    Args:
      settings: the feature settings.
    """

    def __init__(self, settings: FeatureSettings) -> None:
        self.settings = settings

    def __call__(self, audio: tf.Tensor, lengths: tf.Tensor, *, normalize_audio: bool = True,
                 dither_floor: bool = True) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns features float32 ``[batch, frames, num_features]`` and numbers of frames ``[batch]``.

        Features of padding frames are 0.

        Args:
          audio: ``[batch, samples]`` at the sampling rate of the settings; padding is ignored.
          lengths: number of samples ``[batch]``; empty rows have length 0 and get no frames.
          normalize_audio: whether to multiply the audio by the gain or, if the settings have none, divide it by its
            peak.
          dither_floor: whether to add the expected power of the dither to each frequency bin; True for audio to which
            no dither was added.
        """
        settings, lengths = self.settings, tf.cast(lengths, tf.int32)
        audio = tf.cast(audio, tf.float32)
        audio = tf.where(tf.sequence_mask(lengths, tf.shape(audio)[1]), audio, 0.0)
        if normalize_audio:
            audio = self._normalized(audio)
        frames = tf.where(lengths > 0, self._num_frames(lengths), 0)
        windows = self._psf_windows(audio, lengths) if settings.backend == "psf" else self._windows(audio, lengths)
        power = self._power(windows, dither_floor)
        mask = tf.sequence_mask(frames, tf.shape(power)[1])[:, :, tf.newaxis]
        features = self._normalize_features(self._features(power, mask), frames, mask)
        return self._padded(features), frames

    def _normalized(self, audio: tf.Tensor) -> tf.Tensor:
        if self.settings.gain is not None:
            return audio * self.settings.gain
        return audio * _gain_of(tf.reduce_max(tf.abs(audio), axis=1, keepdims=True))

    def _num_frames(self, lengths: tf.Tensor, pad_signal: bool | None = None) -> tf.Tensor:
        """Returns ``settings.num_frames`` of int32 tensors; ``pad_signal`` replaces that of the settings."""
        settings = self.settings
        if settings.backend != "psf":
            return 1 + lengths // settings.hop
        frames = 1 + tf.maximum(0, lengths - settings.window_samples + settings.hop - 1) // settings.hop
        pads = settings.pad_signal if pad_signal is None else pad_signal
        return _rounded_up(frames, settings.pad_to) if pads else frames

    def _windows(self, audio: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns windows ``[batch, frames, window_samples]`` centred on multiples of the hop."""
        settings, samples = self.settings, tf.shape(audio)[1]
        if settings.has_preemphasis:
            audio = _emphasized(audio)
        size, hop = settings.window_samples, settings.hop
        sample_indices = tf.range(samples // hop * hop + size) - settings.samples_before
        indices = reflected(sample_indices, lengths[:, tf.newaxis])
        return tf.signal.frame(tf.gather(audio, indices, batch_dims=1), size, hop)

    def _psf_windows(self, audio: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns windows of 16-bit samples ``[batch, frames, window_samples]``; the first starts at sample 0."""
        settings, samples = self.settings, tf.shape(audio)[1]
        size, hop = settings.window_samples, settings.hop
        audio = tf.clip_by_value(audio * FULL_SCALE, -FULL_SCALE - 1, FULL_SCALE)
        audio = tf.cast(tf.cast(audio, tf.int32), tf.float32)  # rounds towards zero
        audio = tf.pad(audio, [[0, 0], [0, (self._num_frames(samples) - 1) * hop + size - samples]])
        if settings.has_preemphasis:
            audio = _emphasized(audio)
            # A sample after the end is emphasized, too, but only if it belongs to the padded signal.
            ends = lengths + (self._num_frames(lengths) - self._num_frames(lengths, False)) * hop
            audio = tf.where(tf.sequence_mask(ends, tf.shape(audio)[1]), audio, 0.0)
        return tf.signal.frame(audio, size, hop)

    def _power(self, windows: tf.Tensor, dither_floor: bool) -> tf.Tensor:
        """Returns the power of each frequency bin ``[batch, frames, bins]``; padding frames have undefined values."""
        settings, points, scale = self.settings, self.settings.fft_points, 1.0
        power = power_of(windows, settings.window_values, points)
        if settings.backend == "psf":
            power, scale = power / points, FULL_SCALE ** 2 / points
        if dither_floor and settings.dither:
            power += tf.constant(settings.dither_power * scale, tf.float32)
        return power

    def _features(self, power: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns the unnormalised features ``[batch, frames, num_features]``."""
        settings, is_psf = self.settings, self.settings.backend == "psf"
        if settings.input_type == "spectrogram":
            if not is_psf:
                return _decibels(power[:, :, :settings.num_features], TINY_POWER)
            decibels = _decibels(power, TINY_POWER)
            return (decibels - _loudest(decibels, mask, TINY_POWER))[:, :, :settings.num_features]
        mel = tf.matmul(power, tf.constant(settings.filters, tf.float32))
        if settings.input_type == "logfbank":
            return tf.math.log(tf.where(mel == 0.0, EMPTY_FILTER, mel) if is_psf else mel + LOG_EPSILON)
        if is_psf:
            values = tf.math.log(tf.where(mel == 0.0, EMPTY_FILTER, mel))
        else:
            decibels = _decibels(mel, DECIBEL_EPSILON)
            values = tf.maximum(decibels, _loudest(decibels, mask, DECIBEL_EPSILON) - DECIBEL_RANGE)
        return tf.matmul(values, tf.constant(settings.cosines, tf.float32))

    def _normalize_features(self, features: tf.Tensor, frames: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        settings = self.settings
        axes = [1] if settings.norm_per_feature else [1, 2]
        count = tf.cast(tf.maximum(frames, 1), tf.float32)[:, tf.newaxis, tf.newaxis]
        count *= 1.0 if settings.norm_per_feature else float(settings.num_features)

        def mean_of(values: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(tf.where(mask, values, 0.0), axis=axes, keepdims=True) / count

        mean = mean_of(features) if settings.mean is None else tf.constant(settings.mean, tf.float32)
        if settings.std_dev is None:
            deviation = tf.sqrt(mean_of(tf.square(features - mean_of(features))))
            deviation = tf.where(deviation < SMALLEST_DEVIATION, 1.0, deviation)
        else:
            deviation = tf.constant(settings.std_dev, tf.float32)
        return tf.where(mask, (features - mean) / deviation, 0.0)

    def _padded(self, features: tf.Tensor) -> tf.Tensor:
        frames = tf.shape(features)[1]
        padded = tf.pad(features, [[0, 0], [0, _rounded_up(frames, self.settings.pad_to) - frames], [0, 0]])
        return in_shape(padded, [None, None, self.settings.num_features], is_padded=True)


def masked_features(features: tf.Tensor, masks: tf.Tensor) -> tf.Tensor:
    """Returns features ``[batch, frames, num_features]`` in which rectangles are set to zero (SpecAugment).

    Args:
      features: ``[batch, frames, num_features]``.
      masks: rectangles ``[batch, masks, 4]``, each (first frame, last frame + 1, first feature, last feature + 1).
    """
    time, columns = tf.range(tf.shape(features)[1]), tf.range(tf.shape(features)[2])
    in_time = (time >= masks[:, :, 0, tf.newaxis]) & (time < masks[:, :, 1, tf.newaxis])
    in_columns = (columns >= masks[:, :, 2, tf.newaxis]) & (columns < masks[:, :, 3, tf.newaxis])
    covered = tf.einsum("bmt,bmf->btf", tf.cast(in_time, tf.float32), tf.cast(in_columns, tf.float32))
    return tf.where(covered > 0, tf.zeros([], features.dtype), features)


def power_of(windows: tf.Tensor, factors: np.ndarray, points: int) -> tf.Tensor:
    """Returns the power of each frequency bin ``[..., points // 2 + 1]`` of windows ``[..., samples]``.

    Args:
      windows: the windows.
      factors: the window function ``[samples]``.
      points: number of points of the Fourier transform.
    """
    if current_pass().fourier_by_matrix:
        angles = np.outer(np.arange(len(factors)), np.arange(points // 2 + 1)) % points * (2 * np.pi / points)
        matrix = np.concatenate([np.cos(angles), np.sin(angles)], 1) * factors[:, np.newaxis]
        real, imaginary = tf.split(tf.matmul(windows, tf.constant(matrix, tf.float32)), 2, -1)
    else:
        spectrum = tf.signal.rfft(windows * tf.constant(factors, tf.float32), [points])
        real, imaginary = tf.math.real(spectrum), tf.math.imag(spectrum)
    return tf.square(real) + tf.square(imaginary)


def reflected(indices: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the indices of the samples of utterances that are extended by reflection at both ends.

    Args:
      indices: int32 indices in the extended signals, which may be negative or beyond the end.
      lengths: number of samples of each utterance, in a shape that can be broadcast with that of ``indices``.
    """
    period = tf.maximum(1, 2 * (lengths - 1))
    folded = tf.abs(indices) % period
    return tf.clip_by_value(tf.minimum(folded, period - folded), 0, tf.maximum(lengths - 1, 0))


def _gain_of(peaks: tf.Tensor) -> tf.Tensor:
    """Returns 1 / (peak + ``PEAK_EPSILON``), rounded once from double precision, as NumPy computes it.

    Another last bit makes 16-bit samples round to the other side. Runtimes without double precision have pairs of
    float32 instead: Dekker 1971, "A floating-point technique for extending the available precision".
    """
    divisor, epsilon = peaks + PEAK_EPSILON, tf.constant(PEAK_EPSILON, tf.float32)
    added = divisor - peaks
    rest = (peaks - (divisor - added)) + (epsilon - added)  # what rounding has taken from the divisor
    gain = 1.0 / divisor
    (high, low), (gain_high, gain_low) = _halves(divisor), _halves(gain)
    error = ((1.0 - high * gain_high) - high * gain_low - low * gain_high) - low * gain_low - rest * gain
    return gain + gain * error


def _halves(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns two numbers of 12 bits with the sum ``x``; their products are exact."""
    large = x * 4097.0
    high = large - (large - x)
    return high, x - high


def _emphasized(audio: tf.Tensor) -> tf.Tensor:
    return audio - PREEMPHASIS * tf.pad(audio[:, :-1], [[0, 0], [1, 0]])


def _rounded_up(numbers: tf.Tensor, multiple: int) -> tf.Tensor:
    return (numbers + multiple - 1) // multiple * multiple if multiple > 1 else numbers


def _loudest(decibels: tf.Tensor, mask: tf.Tensor, least: float) -> tf.Tensor:
    """Returns the highest value of each utterance ``[batch, 1, 1]``; ``least`` is the lowest power."""
    lowest = tf.constant(10 * math.log10(least), tf.float32)
    return tf.reduce_max(tf.where(mask, decibels, lowest), axis=[1, 2], keepdims=True)


def _decibels(power: tf.Tensor, least: float) -> tf.Tensor:
    return tf.math.log(tf.maximum(power, least)) * (10 / math.log(10))
