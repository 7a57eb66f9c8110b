"""Durations of symbols: their prediction, and the upsampling of symbols to frames.

See Shen et al. 2020, Non-Attentive Tacotron, https://arxiv.org/abs/2010.04301.
"""

from __future__ import annotations

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.block import BlockSettings, BlockShape, ConvBlock
from open_seq2seq.parts.conv_blocks.convolution import Window
from open_seq2seq.parts.tacotron.layers import Dense


class DurationPredictor(Module):
    """Convolutions over the symbols, and a dense layer, which predict the logarithm of 1 + duration.

    Args:
      input_size: number of channels of the symbols.
      units: number of channels of the convolutions.
      count: number of convolutions.
      size: number of taps of the convolutions.
      dropout: dropout rate after each convolution.
      settings: settings of the convolutions.
    """

    def __init__(self, input_size: int, units: int, count: int, size: int, dropout: float,
                 settings: BlockSettings) -> None:
        super().__init__(name="duration_predictor")
        shape = BlockShape("conv1d", 1, [Window(size)], units, dropout)
        self.blocks = [ConvBlock(units if number else input_size, shape, settings) for number in range(count)]
        self.projection = Dense(units, 1, settings.initializer, settings.regularizer)

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns ``[batch, text]`` FP32 for symbols ``[batch, text, input_size]`` in the compute dtype."""
        for block in self.blocks:
            x, lengths = block(x, lengths, training=training)
        return tf.cast(self.projection(x)[..., 0], tf.float32)


class GaussianUpsampling(Module):
    """Upsampling of symbols to frames: each frame is a mean of the symbols, with weights of normal densities.

    The density of a symbol has its mean at the centre of the symbol. Symbols without duration have no weight. Two
    channels are added to each frame: the mean logarithm of 1 + duration, and the mean position in the symbol, -0.5 at
    its beginning and 0.5 at its end.

    Args:
      input_size: number of channels of the symbols.
      sigma: standard deviation of the densities in frames; None to learn it for each symbol from its channels and its
        duration.

    Attributes:
      output_size: number of channels of the frames.
    """

    def __init__(self, input_size: int, sigma: float | None) -> None:
        super().__init__(name="gaussian_upsampling")
        self._sigma, self.output_size = sigma, input_size + 2
        self.range: Dense | None = None
        if sigma is None:
            self.range = Dense(input_size + 1, 1)

    def __call__(self, x: tf.Tensor, durations: tf.Tensor, time: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Upsamples symbols.

        Args:
          x: symbols ``[batch, text, input_size]`` in the compute dtype.
          durations: numbers of frames ``[batch, text]`` FP32, 0 at padding.
          time: number of frames of the result.

        Returns:
          (frames ``[batch, time, output_size]`` in the compute dtype; weights ``[batch, time, text]`` FP32). Those
          after the end of an example are arbitrary.
        """
        logarithms = tf.math.log1p(durations)[..., tf.newaxis]
        sigmas = tf.ones_like(durations) * (self._sigma or 1.0)
        if self.range is not None:
            # The bias of 1 begins with a standard deviation near that of sounds of average length.
            sigmas = tf.nn.softplus(self.range(tf.concat([tf.cast(x, tf.float32), logarithms], -1))[..., 0] + 1.0)
        weights, distances = gaussian_weights(durations, sigmas, time)
        positions = tf.reduce_sum(weights * distances / tf.maximum(durations, 1.0)[:, tf.newaxis], -1, keepdims=True)
        values = tf.concat([x, tf.cast(logarithms, x.dtype)], -1)
        frames = tf.concat([tf.matmul(tf.cast(weights, x.dtype), values), tf.cast(positions, x.dtype)], -1)
        return tf.ensure_shape(frames, [None, None, self.output_size]), weights


def gaussian_weights(durations: tf.Tensor, sigmas: tf.Tensor, time: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the weights of symbols at frames, and the distances from the centres of the symbols in frames.

    Args:
      durations: ``[batch, text]`` FP32, in frames.
      sigmas: positive standard deviations ``[batch, text]`` FP32, in frames.
      time: number of frames.

    Returns:
      (weights ``[batch, time, text]`` FP32, whose sum over the symbols is 1; distances ``[batch, time, text]``).
    """
    centres = tf.cumsum(durations, 1) - durations / 2
    distances = tf.range(time, dtype=tf.float32)[:, tf.newaxis] + 0.5 - centres[:, tf.newaxis]
    sigmas = tf.maximum(sigmas, 1e-2)[:, tf.newaxis]
    scores = -tf.square(distances / sigmas) / 2 - tf.math.log(sigmas)
    return tf.nn.softmax(tf.where(durations[:, tf.newaxis] > 0, scores, -1e9)), distances


def whole_frames(durations: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Rounds durations to whole frames, so that the ends of the symbols are within half a frame of the unrounded ones.

    A text has at least one frame.

    Args:
      durations: ``[batch, text]`` FP32, in frames; negative ones count as 0.
      lengths: numbers of symbols ``[batch]``.

    Returns:
      ``[batch, text]`` FP32, 0 at padding.
    """
    durations = tf.nn.relu(durations) * tf.sequence_mask(lengths, tf.shape(durations)[1], tf.float32)
    ends = tf.round(tf.cumsum(durations, 1))
    # The first symbol of a text that would have no frames gets one.
    empty = (ends[:, -1:] < 1) & (lengths[:, tf.newaxis] > 0)
    return tf.concat([ends[:, :1] + tf.cast(empty, tf.float32), ends[:, 1:] - ends[:, :-1]], 1)
