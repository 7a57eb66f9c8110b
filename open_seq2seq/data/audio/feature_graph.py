"""The backend ``tf``: features of a padded batch in TensorFlow, with the same values as those of ``librosa``."""

from __future__ import annotations

import math

import tensorflow as tf

from open_seq2seq.data.audio.feature_settings import (
    PEAK_EPSILON,
    PREEMPHASIS,
    SMALLEST_DEVIATION,
    FeatureSettings,
)
from open_seq2seq.data.audio.features import DECIBEL_EPSILON, DECIBEL_RANGE, LOG_EPSILON, TINY_POWER


class AudioFeatures:
    """Computes features from audio in the graph of training steps and exported models.

    An utterance's features do not depend on the other utterances of the batch.

    Args:
      settings: the feature settings; all settings of the backend ``librosa`` are supported.
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
        frames = tf.where(lengths > 0, 1 + lengths // settings.hop, 0)
        power = self._power(audio, lengths)
        if dither_floor and settings.dither:
            power += tf.constant(settings.dither_power, tf.float32)
        mask = tf.sequence_mask(frames, tf.shape(power)[1])[:, :, tf.newaxis]
        features = self._normalize_features(self._features(power, mask), frames, mask)
        return self._padded(features), frames

    def _normalized(self, audio: tf.Tensor) -> tf.Tensor:
        if self.settings.gain is not None:
            return audio * self.settings.gain
        return audio / (tf.reduce_max(tf.abs(audio), axis=1, keepdims=True) + PEAK_EPSILON)

    def _power(self, audio: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns the power of each frequency bin ``[batch, frames, bins]``; padding frames have undefined values."""
        settings, samples = self.settings, tf.shape(audio)[1]
        if settings.has_preemphasis:
            audio -= PREEMPHASIS * tf.pad(audio[:, :-1], [[0, 0], [1, 0]])
        points, size, hop = settings.fft_points, settings.window_samples, settings.hop
        sample_indices = tf.range(samples // hop * hop + size) - settings.samples_before
        # Each utterance is extended by reflection at both ends, repeatedly if it is very short.
        period = tf.maximum(1, 2 * (lengths - 1))[:, tf.newaxis]
        folded = tf.abs(sample_indices) % period
        indices = tf.minimum(folded, period - folded)
        indices = tf.clip_by_value(indices, 0, tf.maximum(lengths - 1, 0)[:, tf.newaxis])
        frames = tf.signal.frame(tf.gather(audio, indices, batch_dims=1), size, hop)
        spectrum = tf.signal.rfft(frames * tf.constant(settings.window_values, tf.float32), [points])
        return tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))

    def _features(self, power: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        settings = self.settings
        if settings.input_type == "spectrogram":
            return _decibels(power[:, :, :settings.num_features], TINY_POWER)
        mel = tf.matmul(power, tf.constant(settings.filters, tf.float32))
        if settings.input_type == "logfbank":
            return tf.math.log(mel + LOG_EPSILON)
        decibels = _decibels(mel, DECIBEL_EPSILON)
        lowest = tf.constant(10 * math.log10(DECIBEL_EPSILON), tf.float32)
        loudest = tf.reduce_max(tf.where(mask, decibels, lowest), axis=[1, 2], keepdims=True)
        return tf.matmul(tf.maximum(decibels, loudest - DECIBEL_RANGE), tf.constant(settings.cosines, tf.float32))

    def _normalize_features(self, features: tf.Tensor, frames: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        settings = self.settings
        axes = [1] if settings.norm_per_feature else [1, 2]
        count = tf.cast(tf.maximum(frames, 1), tf.float32)[:, tf.newaxis, tf.newaxis]
        count *= 1.0 if settings.norm_per_feature else float(settings.num_features)

        def mean_of(values: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(tf.where(mask, values, 0.0), axis=axes, keepdims=True) / count

        if settings.mean is None:
            mean = mean_of(features)
        else:
            mean = tf.constant(settings.mean, tf.float32)
        if settings.std_dev is None:
            deviation = tf.sqrt(mean_of(tf.square(features - mean_of(features))))
            deviation = tf.where(deviation < SMALLEST_DEVIATION, 1.0, deviation)
        else:
            deviation = tf.constant(settings.std_dev, tf.float32)
        return tf.where(mask, (features - mean) / deviation, 0.0)

    def _padded(self, features: tf.Tensor) -> tf.Tensor:
        pad_to = self.settings.pad_to
        missing = -tf.shape(features)[1] % pad_to if pad_to > 1 else 0
        padded = tf.pad(features, [[0, 0], [0, missing], [0, 0]])
        return tf.ensure_shape(padded, [None, None, self.settings.num_features])


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


def _decibels(power: tf.Tensor, least: float) -> tf.Tensor:
    return tf.math.log(tf.maximum(power, least)) * (10 / math.log(10))
