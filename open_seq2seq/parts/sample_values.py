"""The samples that WaveNet reads and predicts: levels of the mu-law, or 16-bit numbers from a mixture of logistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

_LEAST_LOG_SCALE = -9.0
"""Lower bound of the logarithms of the scales, so that single clips cannot make them ever smaller."""
_RAREST = 1e-5
"""Probability of the most extreme draws of a logistic distribution, on either side."""
_TINY = 1e-20


class MuLaw:
    """Classes of samples: the levels of the mu-law (ITU-T G.711), as van den Oord et al. 2016 predict them.

    Args:
      levels: number of levels.

    Attributes:
      dtype: dtype of samples.
      inputs: number of channels that the network reads.
      outputs: number of channels of its predictions, the logits of the levels.
    """

    dtype = tf.int32

    def __init__(self, levels: int) -> None:
        self.levels = self.inputs = self.outputs = levels

    def of_audio(self, audio: tf.Tensor) -> tf.Tensor:
        """Quantises audio from -1 to 1: int32 from 0 to ``levels`` - 1, in the same shape."""
        mu = self.levels - 1.0
        audio = tf.clip_by_value(tf.cast(audio, tf.float32), -1.0, 1.0)
        compressed = tf.sign(audio) * tf.math.log1p(mu * tf.abs(audio)) / np.log1p(mu)
        return tf.cast((compressed + 1.0) / 2.0 * mu + 0.5, tf.int32)

    def audio(self, samples: tf.Tensor) -> tf.Tensor:
        """Returns the audio of quantised samples, float32 from -1 to 1."""
        mu = self.levels - 1.0
        compressed = 2.0 * tf.cast(samples, tf.float32) / mu - 1.0
        return tf.sign(compressed) * tf.math.expm1(tf.abs(compressed) * np.log1p(mu)) / mu

    def read(self, samples: tf.Tensor) -> tf.Tensor:
        """Returns what the network reads of samples: FP32 ``[…, inputs]``."""
        return tf.one_hot(samples, self.levels)

    def drawn(self, predicted: tf.Tensor, temperature: float, seed: Any) -> tf.Tensor:
        """Returns a sample for each row of predictions ``[batch, outputs]``, drawn with the same random numbers.

        Args:
          predicted: the predictions, FP32.
          temperature: divisor of the logits; 0 chooses the likeliest level.
          seed: two integers.
        """
        if temperature > 0:
            draws = tf.random.stateless_uniform(predicted.shape[1:], seed, minval=_TINY)
            predicted = predicted / temperature + _gumbel(draws)
        return tf.argmax(predicted, -1, tf.int32)

    def errors(self, predicted: tf.Tensor, audio: tf.Tensor) -> tf.Tensor:
        """Returns the negative logarithms of the probabilities of audio ``[…]``, from FP32 ``[…, outputs]``."""
        return tf.nn.sparse_softmax_cross_entropy_with_logits(self.of_audio(audio), predicted)


class LogisticMixture:
    """Samples as numbers, each predicted by a mixture of logistic distributions.

    The probability of a level is that of the interval of numbers that are rounded to it; the lowest and the highest one
    have what is beyond them (PixelCNN++, Salimans et al. 2017, https://arxiv.org/abs/1701.05517; for sound, Parallel
    WaveNet, van den Oord et al. 2017, https://arxiv.org/abs/1711.10433).

    Args:
      levels: number of evenly spaced levels from -1 to 1.
      components: number of logistic distributions.

    Attributes:
      dtype, inputs, outputs: as in ``MuLaw``; predictions are the logits of the components, then their means, then
        the logarithms of their scales.
    """

    dtype = tf.float32
    inputs = 1

    def __init__(self, levels: int, components: int) -> None:
        self.levels, self.components, self.outputs = levels, components, 3 * components

    def of_audio(self, audio: tf.Tensor) -> tf.Tensor:
        """Rounds audio from -1 to 1 to a level, FP32."""
        steps = (tf.clip_by_value(tf.cast(audio, tf.float32), -1.0, 1.0) + 1.0) * ((self.levels - 1) / 2)
        return tf.round(steps) * (2 / (self.levels - 1)) - 1.0

    def audio(self, samples: tf.Tensor) -> tf.Tensor:
        """Returns the samples."""
        return samples

    def read(self, samples: tf.Tensor) -> tf.Tensor:
        """Returns what the network reads of samples ``[…]``: FP32 ``[…, 1]``."""
        return samples[..., tf.newaxis]

    def drawn(self, predicted: tf.Tensor, temperature: float, seed: Any) -> tf.Tensor:
        """Returns a sample for each row of predictions ``[batch, outputs]``, drawn with the same random numbers.

        Args:
          predicted: the predictions, FP32.
          temperature: divisor of the logits of the components, and factor of the scales; 0 chooses the mean of the
            likeliest component.
          seed: two integers.
        """
        logits, means, log_scales = self._parameters(predicted)
        draws = tf.random.stateless_uniform([self.components + 1], seed, minval=_TINY)
        if temperature > 0:
            logits = logits / temperature + _gumbel(draws[:-1])
        best = tf.argmax(logits, -1, tf.int32)
        mean, scale = (tf.gather(values, best, axis=1, batch_dims=1) for values in (means, tf.exp(log_scales)))
        share = tf.clip_by_value(draws[-1], _RAREST, 1.0 - _RAREST)
        return self.of_audio(mean + temperature * scale * (tf.math.log(share) - tf.math.log1p(-share)))

    def errors(self, predicted: tf.Tensor, audio: tf.Tensor) -> tf.Tensor:
        """Returns the negative logarithms of the probabilities of audio ``[…]``, from FP32 ``[…, outputs]``.

        For a level from ``a`` to ``b``, in scales from the mean, the logarithm of ``σ(b) - σ(a)`` is that of
        ``σ(b) · σ(-a) · (1 - exp(a - b))``, which is exact for narrow and for far levels, too.
        """
        logits, means, log_scales = self._parameters(predicted)
        samples = self.of_audio(audio)[..., tf.newaxis]
        half, inverse = 1 / (self.levels - 1), tf.exp(-log_scales)
        upper, lower = inverse * (samples - means + half), inverse * (samples - means - half)
        is_lowest, is_highest = samples < half - 1.0, samples > 1.0 - half
        log_probs = (tf.where(is_highest, 0.0, tf.math.log_sigmoid(upper))
                     + tf.where(is_lowest, 0.0, tf.math.log_sigmoid(-lower))
                     + tf.where(is_lowest | is_highest, 0.0, tf.math.log(-tf.math.expm1(-2.0 * half * inverse))))
        return -tf.reduce_logsumexp(tf.nn.log_softmax(logits) + log_probs, -1)

    def _parameters(self, predicted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the logits, means and log scales ``[…, components]`` of predictions."""
        logits, means, log_scales = tf.split(predicted, 3, -1)
        return logits, means, tf.maximum(log_scales, _LEAST_LOG_SCALE)


def _gumbel(draws: tf.Tensor) -> tf.Tensor:
    """Returns numbers with which the largest logit becomes a draw from the probabilities, from uniform ones."""
    return -tf.math.log(-tf.math.log(draws))
