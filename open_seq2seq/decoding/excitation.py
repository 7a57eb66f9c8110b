"""What a voice excites the vocal tract with: pulses at its pitch, which is found in mel spectrograms, and noise."""

from __future__ import annotations

import functools
import math

import numpy as np
import tensorflow as tf

from open_seq2seq.decoding.vocoder import griffin_lim, spectra_of_hops

LOWEST, HIGHEST = 60.0, 400.0
"""Range of the pitch in Hz."""
_CANDIDATES = 256
"""Number of pitches that are tried, a constant ratio apart."""
_TOP = 1500.0
"""Frequency in Hz up to which mel filters resolve the harmonics of a voice."""
_NOISE_HOPS = 512
"""Number of hops after which the noise begins again."""
_NOISE_ITERATIONS = 100
_TINY = 1e-9


def pitch_of_mel(mel: tf.Tensor, basis: np.ndarray, rate: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the pitch of mel spectrograms: the period at which their spectra have the largest autocorrelation.

    The spectra are the magnitudes of least norm with these mel values, below 1,500 Hz. All is computed in FP64: phases
    are sums of the pitch over a clip, times the number of the harmonic, and the vertex of a flat maximum would multiply
    the rounding errors of FP32.

    Args:
      mel: non-negative mel spectrograms ``[batch, frames, mels]``, without logarithm.
      basis: mel filters ``[mels, bins]``.
      rate: sampling rate in Hz.

    Returns:
      pitch in Hz ``[batch, frames]``, also where nothing is voiced, and the autocorrelation at its period, at most 1.
    """
    bins = basis.shape[1]
    frequencies = np.arange(bins) * (rate / 2 / (bins - 1))
    weights = np.where(frequencies < _TOP, 0.5 + 0.5 * np.cos(np.pi * frequencies / _TOP), 0.0)
    weights *= frequencies >= LOWEST
    used = weights > 0
    magnitudes = tf.nn.relu(tf.matmul(tf.cast(mel, tf.float64), np.linalg.pinv(basis)[used].T.astype(np.float64)))
    magnitudes *= weights[used]
    candidates = np.geomspace(LOWEST, HIGHEST, _CANDIDATES)
    waves = np.cos(2 * np.pi * np.outer(frequencies[used], 1 / candidates))
    total = tf.reduce_sum(magnitudes, 2, keepdims=True)
    correlation = tf.matmul(magnitudes, waves) / tf.maximum(total, _TINY)
    best = tf.argmax(correlation[:, :, 1:-1], 2, tf.int32) + 1
    before, peak, after = (tf.gather(correlation, best + shift, axis=2, batch_dims=2) for shift in (-1, 0, 1))
    # The vertex of a parabola through the maximum and its neighbours.
    shift = 0.5 * (before - after) / tf.minimum(before - 2 * peak + after, -_TINY)
    step = math.log(candidates[1] / candidates[0])
    position = tf.cast(best, tf.float64) + tf.clip_by_value(shift, -0.5, 0.5)
    return tf.cast(LOWEST * tf.exp(position * step), tf.float32), tf.cast(peak, tf.float32)


def pulses(pitch: tf.Tensor, hop: int, rate: int) -> tf.Tensor:
    """Returns the sum of all harmonics of a pitch below half the sampling rate, as cosines of amplitude 1.

    Args:
      pitch: pitch in Hz of frames that are ``hop`` samples apart ``[batch, frames]``; between them, it is linear.
      hop: number of samples from one frame to the next.
      rate: sampling rate in Hz.

    Returns:
      ``[batch, frames - 1, hop]``.
    """
    first, second = pitch[:, :-1, tf.newaxis] / rate, pitch[:, 1:, tf.newaxis] / rate
    # Phases are in cycles. Only fractions of cycles are added up, so that the sum remains exact in long clips.
    start = tf.math.cumsum(tf.math.floormod((first + second) * (hop / 2), 1.0), 1, exclusive=True)
    samples = tf.range(hop, dtype=tf.float32)
    phases = start + first * samples + (second - first) * samples * samples / (2 * hop)
    angle = math.pi * tf.math.floormod(phases, 1.0)
    count = tf.floor(0.5 / (first + (second - first) * samples / hop))
    divisor = tf.sin(angle)
    closed = tf.sin(count * angle) * tf.cos((count + 1.0) * angle) / tf.maximum(divisor, 1e-4)
    return tf.where(divisor < 1e-4, count, closed)


@functools.lru_cache(maxsize=8)
def even_noise(points: int) -> np.ndarray:
    """Returns noise ``[hops, points / 4]``, in whose frames of ``points`` samples all magnitudes are similar.

    In a spectrogram of white noise, magnitudes vary by 5.6 dB about their mean. A vocoder can only know the mean: with
    magnitudes that vary independently, its spectra would be further from those of a recording than with even ones.
    """
    with tf.init_scope():
        sound = griffin_lim(tf.ones([1, _NOISE_HOPS + 1, points // 2 + 1]), [_NOISE_HOPS + 1], _NOISE_ITERATIONS)
        return sound.numpy().reshape(_NOISE_HOPS, points // 4)


def excitations(pitch: tf.Tensor, lengths: tf.Tensor, points: int, rate: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the short-time Fourier transforms of pulses at a pitch, and of noise.

    Frames are those of ``griffin_lim``. In those of the pulses, a single harmonic would have a magnitude of 1 at its
    frequency. The noise is the same in all examples, except that it lasts as long as each; see ``even_noise``.

    Args:
      pitch: pitch in Hz ``[batch, frames]``.
      lengths: numbers of frames ``[batch]``.
      points: length of a frame in samples, a multiple of 4.
      rate: sampling rate in Hz.

    Returns:
      complex64 ``[batch, frames, points / 2 + 1]`` each.
    """
    hop = points // 4
    hops = tf.maximum(tf.shape(pitch)[1] - 1, 0)
    inside = tf.sequence_mask(tf.maximum(lengths - 1, 0), hops, tf.float32)[:, :, tf.newaxis]
    noise = tf.tile(tf.constant(even_noise(points)), [-(-hops // _NOISE_HOPS), 1])[:hops]
    sounds = tf.concat([pulses(pitch, hop, rate) * inside, noise * inside], 0)
    spectra = spectra_of_hops(sounds)[:, :tf.shape(pitch)[1]]
    voiced, voiceless = tf.split(spectra / (points / 4), 2, 0)
    return voiced, voiceless
