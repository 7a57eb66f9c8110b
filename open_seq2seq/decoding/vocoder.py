"""From spectrograms to sound: phases by Griffin and Lim's method, magnitudes from mel spectrograms, joined parts.

And what a voice excites the vocal tract with: pulses at its pitch, which is found in mel spectrograms, and noise.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import tensorflow as tf

_OVERLAP = 4
"""Length of a frame divided by the distance between the starts of consecutive frames."""
_TINY = 1e-37
"""Lower bound of divisors that may be zero."""


def griffin_lim(magnitudes: tf.Tensor, lengths: tf.Tensor, iterations: int = 60, momentum: float = 0.99,
                phases: tf.Tensor | None = None, seed: int = 0) -> tf.Tensor:
    """Finds audio whose short-time Fourier transforms have approximately the given magnitudes.

    This is Griffin and Lim's method with the momentum of Perraudin, Balazs and Søndergaard (2013). Frames are windowed
    by the periodic Hann window and centred on multiples of a quarter of their length; before and after the audio, they
    contain zeros. An example's audio does not depend on the other examples of the batch.

    Args:
      magnitudes: ``[batch, frames, bins]``, where ``2 * (bins - 1)`` is the length of a frame in samples and a multiple
        of 4; padding is ignored.
      lengths: number of frames ``[batch]``.
      iterations: number of iterations; 0 for the inverse transform with the initial phases, which vocoders
        that predict phases use.
      momentum: 0 for the method without momentum.
      phases: initial phases in radians, or as complex numbers of magnitude 1, of a shape that can be broadcast to that
        of ``magnitudes``; None for random phases.
      seed: random seed of the initial phases.

    Returns:
      float32 ``[batch, (frames - 1) * hop]`` with a hop of a quarter of a frame, 0 after the ``(length - 1) * hop``
      samples of each example.
    """
    magnitudes, lengths = tf.cast(magnitudes, tf.float32), tf.convert_to_tensor(lengths)
    frames, bins = tf.shape(magnitudes)[1], magnitudes.shape[2]
    magnitudes *= tf.sequence_mask(lengths, frames, tf.float32)[:, :, tf.newaxis]
    if phases is None:
        # The phases of a frame do not depend on the number of frames, so they are the same in every batch.
        phases = 2 * math.pi * tf.random.stateless_uniform([frames, bins], [seed, 0])
    if not phases.dtype.is_complex:
        phases = tf.complex(tf.cos(phases), tf.sin(phases))
    spectra = tf.complex(magnitudes * tf.math.real(phases), magnitudes * tf.math.imag(phases))
    if not iterations:
        return _samples(spectra, _window_factors(lengths, frames, bins))

    def samples_of_clip(clip: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> tf.Tensor:
        length = clip[2]
        magnitudes, spectrum = clip[0][tf.newaxis, :length], clip[1][tf.newaxis, :length]
        factors = _window_factors(length[tf.newaxis], length, bins)
        samples = _samples(_consistent(magnitudes, spectrum, factors, iterations, momentum), factors)[0]
        return tf.pad(samples, [[0, tf.maximum(frames - 1, 0) * (bins // 2) - tf.size(samples)]])

    # A clip alone has no padding, and its tensors stay in the cache: on a CPU, 16 clips take half as long as in a
    # batch. The additional clip without frames is there because the results of no clips cannot be stacked.
    clips = [tf.pad(values, [[0, 1]] + [[0, 0]] * (len(values.shape) - 1)) for values in (magnitudes, spectra, lengths)]
    samples = tf.map_fn(samples_of_clip, tuple(clips), fn_output_signature=tf.TensorSpec([None]), parallel_iterations=2)
    return samples[:-1]


def _consistent(magnitudes: tf.Tensor, spectra: tf.Tensor, factors: tf.Tensor, iterations: int,
                momentum: float) -> tf.Tensor:
    """Returns spectra with the given magnitudes, and phases that are approximately those of audio."""

    def improved(spectra: tf.Tensor, last_audio: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # The transform is linear: the momentum is applied to the audio, which is smaller than the spectrum.
        audio = _audio(spectra, factors)
        rebuilt = _spectra(audio - momentum / (1 + momentum) * last_audio)
        real, imaginary = tf.math.real(rebuilt), tf.math.imag(rebuilt)
        scale = magnitudes * tf.math.rsqrt(tf.maximum(real * real + imaginary * imaginary, _TINY))
        return tf.ensure_shape(tf.complex(real * scale, imaginary * scale), spectra.shape), audio

    return _repeated(improved, (spectra, tf.zeros_like(factors)), iterations)[0]


def _samples(spectra: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Returns the audio between the middles of the first and the last frame ``[batch, (frames - 1) * hop]``."""
    audio = _audio(spectra, factors)[:, 2:-2]
    return tf.reshape(audio, [tf.shape(audio)[0], tf.shape(audio)[1] * audio.shape[2]])


def mel_to_magnitude(mel: tf.Tensor, basis: np.ndarray, iterations: int = 100) -> tf.Tensor:
    """Returns non-negative magnitudes whose mel spectrograms are approximately the given ones, by least squares.

    This is the accelerated projected gradient of Beck and Teboulle (2009), from the clipped solution without bounds.

    Args:
      mel: non-negative mel spectrograms ``[batch, frames, mels]``, without logarithm.
      basis: mel filters ``[mels, bins]``.
      iterations: number of iterations.

    Returns:
      ``[batch, frames, bins]``: magnitudes, or powers if the mel spectrograms are of powers.
    """
    basis = np.asarray(basis, np.float64)
    # Each bin has its own step, since filters for low frequencies have a much smaller norm than others.
    curvature = basis.T @ basis.sum(axis=1)
    steps = tf.constant(np.where(curvature > 0, 1 / np.maximum(curvature, _TINY), 0.0), tf.float32)
    filters = tf.constant(basis, tf.float32)
    start = tf.nn.relu(tf.matmul(mel, tf.constant(np.linalg.pinv(basis).T, tf.float32)))

    def improved(solution: tf.Tensor, ahead: tf.Tensor, inertia: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        error = tf.matmul(ahead, filters, transpose_b=True) - mel
        new_solution = tf.nn.relu(ahead - steps * tf.matmul(error, filters))
        new_inertia = (1 + tf.sqrt(1 + 4 * inertia * inertia)) / 2
        return new_solution, new_solution + (inertia - 1) / new_inertia * (new_solution - solution), new_inertia

    return _repeated(improved, (start, start, tf.constant(1.0)), iterations)[0]


def with_mel_values(values: tf.Tensor, mel: tf.Tensor, basis: np.ndarray, floor: float, iterations: int) -> tf.Tensor:
    """Returns spectra like the given ones, whose mel spectrograms are approximately the given ones.

    Each iteration multiplies a bin by the mean of the quotients that its filters have, weighted by the filters. Other
    than ``mel_to_magnitude``, this keeps the details of the spectra.

    Args:
      values: positive magnitudes, or powers if the mel spectrograms are of powers ``[batch, frames, bins]``.
      mel: mel spectrograms ``[batch, frames, mels]``, without logarithm.
      basis: mel filters ``[mels, bins]``.
      floor: lower bound that the mel values were given; those near it may be less.
      iterations: number of iterations.
    """
    total = basis.sum(0)
    filters, weights = tf.constant(basis, tf.float32), tf.constant(basis / np.maximum(total, _TINY), tf.float32)
    outside = tf.constant(total <= 0, tf.float32)  # the bins without a filter
    for _ in range(iterations):
        quotients = mel / tf.maximum(tf.matmul(values, filters, transpose_b=True), floor / 1000)
        quotients = tf.where(mel <= 1.01 * floor, tf.minimum(quotients, 1.0), quotients)
        values *= tf.maximum(tf.matmul(quotients, weights) + outside, _LEAST_FACTOR)
    return values


_LEAST_FACTOR = 1e-3
_FADE_FRAMES = 4
"""Number of frames in which one fold of a clip fades into the next."""


def overlapping_folds(spectrogram: tf.Tensor, silence: tf.Tensor, size: int) -> tf.Tensor:
    """Divides spectrograms into folds of ``size`` frames, and as many frames more as two folds have in common.

    Args:
      spectrogram: ``[batch, frames, features]``.
      silence: a frame of silence ``[features]``, with which the last fold is filled.
      size: number of frames from the start of a fold to that of the next.

    Returns:
      ``[batch * folds, size + _FADE_FRAMES, features]``, the folds of a clip one after another.
    """
    batch, frames, features = tf.unstack(tf.shape(spectrogram))
    folds = tf.maximum(-(-frames // size), 1)
    filling = tf.broadcast_to(silence, [batch, folds * size + _FADE_FRAMES - frames, features])
    places = tf.range(folds)[:, tf.newaxis] * size + tf.range(size + _FADE_FRAMES)
    parts = tf.gather(tf.concat([spectrogram, tf.cast(filling, spectrogram.dtype)], 1), places, axis=1)
    return tf.reshape(parts, [batch * folds, size + _FADE_FRAMES, features])


def joined_folds(sound: tf.Tensor, shape: tf.Tensor, size: int, hop: int) -> tf.Tensor:
    """Joins the sound of folds, each of which fades into the next.

    Args:
      sound: ``[batch * folds, (size + _FADE_FRAMES) * hop]``.
      shape: shape of the spectrograms ``[batch, frames, features]``; see ``overlapping_folds``.
      size: number of frames from the start of a fold to that of the next.
      hop: number of samples of a frame.

    Returns:
      ``[batch, frames * hop]``.
    """
    fade, length = _FADE_FRAMES * hop, size * hop
    rising = tf.range(1, fade + 1, dtype=tf.float32) / (fade + 1)
    parts = tf.reshape(sound, [shape[0], -1, length + fade])
    before = tf.pad(parts[:, :-1, length:] * (1.0 - rising), [[0, 0], [1, 0], [0, 0]])
    # The first fold has nothing before it, so it does not fade in.
    weights = tf.concat([tf.ones([1, fade]), tf.tile(rising[tf.newaxis], [tf.shape(parts)[1] - 1, 1])], 0)
    starts = parts[:, :, :fade] * weights + before
    return tf.reshape(tf.concat([starts, parts[:, :, fade:length]], 2), [shape[0], -1])[:, :shape[1] * hop]


def spectra_of_hops(audio: tf.Tensor) -> tf.Tensor:
    """Returns the short-time Fourier transforms of audio, whose frames are those of ``griffin_lim``.

    Args:
      audio: ``[batch, frames - 1, hop]``.

    Returns:
      complex64 ``[batch, frames, 2 * hop + 1]``.
    """
    return _spectra(tf.pad(audio, [[0, 0], [2, 2], [0, 0]]))


def _spectra(audio: tf.Tensor) -> tf.Tensor:
    """Returns the spectra ``[batch, frames, 2 * hop + 1]`` of audio by hops ``[batch, frames + 3, hop]``."""
    return tf.signal.rfft(_framed(audio) * _window(_OVERLAP * audio.shape[2]))


def _audio(spectra: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Returns audio by hops ``[batch, frames + 3, hop]`` from spectra ``[batch, frames, 2 * hop + 1]``."""
    points = 2 * (spectra.shape[2] - 1)
    return _overlapped(tf.signal.irfft(spectra, [points]) * _window(points)) * factors


def _window(points: int) -> tf.Tensor:
    return tf.constant(np.hanning(points + 1)[:-1], tf.float32)


def _repeated(function: Any, values: tuple[tf.Tensor, ...], times: int) -> tuple[tf.Tensor, ...]:
    """Returns ``values`` after ``function`` has been applied to them ``times`` times."""
    return tf.while_loop(lambda *_: True, function, values, parallel_iterations=1, maximum_iterations=times)


def _window_factors(lengths: tf.Tensor, frames: tf.Tensor, bins: int) -> tf.Tensor:
    """Returns the factors ``[batch, frames + 3, hop]`` of overlapped frames; 0 before and after the audio."""
    inside = tf.sequence_mask(lengths, frames, tf.float32)[:, :, tf.newaxis]
    total = _overlapped(inside * tf.square(_window(2 * (bins - 1))))
    hops = tf.range(tf.shape(total)[1])
    middle = _OVERLAP // 2
    in_audio = (hops >= middle) & (hops < lengths[:, tf.newaxis] - 1 + middle)
    return tf.where(in_audio[:, :, tf.newaxis], tf.math.reciprocal(tf.maximum(total, _TINY)), 0.0)


def _overlapped(frames: tf.Tensor) -> tf.Tensor:
    """Adds overlapping frames ``[batch, frames, points]`` to audio by hops: ``[batch, frames + 3, hop]``."""
    parts = tf.split(frames, _OVERLAP, axis=2)
    return tf.add_n([tf.pad(part, [[0, 0], [index, _OVERLAP - 1 - index], [0, 0]]) for index, part in enumerate(parts)])


def _framed(audio: tf.Tensor) -> tf.Tensor:
    """Returns the frames ``[batch, frames, points]`` of audio ``[batch, frames + 3, hop]``."""
    frames = tf.shape(audio)[1] - (_OVERLAP - 1)
    return tf.concat([audio[:, index:index + frames] for index in range(_OVERLAP)], axis=2)


LOWEST, HIGHEST = 60.0, 400.0
"""Range of the pitch in Hz."""
_CANDIDATES = 256
"""Number of pitches that are tried, a constant ratio apart."""
_TOP = 1500.0
"""Frequency in Hz up to which mel filters resolve the harmonics of a voice."""
_NOISE_HOPS = 512
"""Number of hops after which the noise begins again."""
_NOISE_ITERATIONS = 100
_SMALLEST_SUM = 1e-9


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
    correlation = tf.matmul(magnitudes, waves) / tf.maximum(total, _SMALLEST_SUM)
    best = tf.argmax(correlation[:, :, 1:-1], 2, tf.int32) + 1
    before, peak, after = (tf.gather(correlation, best + shift, axis=2, batch_dims=2) for shift in (-1, 0, 1))
    # The vertex of a parabola through the maximum and its neighbours.
    shift = 0.5 * (before - after) / tf.minimum(before - 2 * peak + after, -_SMALLEST_SUM)
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
