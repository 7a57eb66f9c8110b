"""From spectrograms to sound: phases by Griffin and Lim's method, magnitudes from mel spectrograms."""

from __future__ import annotations

import math

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
      iterations: number of iterations.
      momentum: 0 for the method without momentum.
      phases: initial phases in radians, of a shape that can be broadcast to that of ``magnitudes``; None for random
        phases.
      seed: random seed of the initial phases.

    Returns:
      float32 ``[batch, (frames - 1) * hop]`` with a hop of a quarter of a frame, 0 after the ``(length - 1) * hop``
      samples of each example.
    """
    raise NotImplementedError


def mel_to_magnitude(mel: tf.Tensor, basis: np.ndarray, iterations: int = 100) -> tf.Tensor:
    """Returns non-negative magnitudes whose mel spectrograms are approximately the given ones, by least squares.

    Args:
      mel: non-negative mel spectrograms ``[batch, frames, mels]``, without logarithm.
      basis: mel filters ``[mels, bins]``.
      iterations: number of iterations.

    Returns:
      ``[batch, frames, bins]``: magnitudes, or powers if the mel spectrograms are of powers.
    """
    raise NotImplementedError
