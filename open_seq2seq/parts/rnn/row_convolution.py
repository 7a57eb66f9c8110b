"""Row convolution, by which a unidirectional network reads some later frames."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.activations import Activation, activate_kept
from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.convolution import Window
from open_seq2seq.parts.conv_blocks.primitives import convolve_channels


class RowConvolution(Module):
    """A filter over time for each channel, batch norm and activation, in FP32.

    Amodei et al. 2015, Deep Speech 2, https://arxiv.org/abs/1512.02595, section 3.7; but as in the published recipes
    the window is centred on each frame.

    Args:
      channels: of the input and the output.
      activation: the last step; None for none.
    """

    def __init__(self, channels: int, width: int, activation: Activation | None, momentum: float, epsilon: float,
                 initializer: Any = None, regularizer: Any = None) -> None:
        super().__init__(name="row_convolution")
        self.window = Window(width)
        self.activation = activation
        self.kernel = self.weight([width, channels, 1], initializer, regularizer=regularizer)
        self.norm = BatchNorm(channels, momentum, epsilon, regularizer=regularizer)

    def __call__(self, x: tf.Tensor, held: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Transforms ``[batch, time, channels]``.

        Args:
          x: 0 where ``held`` is False; so is the result.
          held: boolean ``[batch, time]``, False where there is padding.
          training: which statistics normalise.
        """
        wide = tf.pad(tf.cast(x, tf.float32), [[0, 0], self.window.pads(tf.shape(x)[1]), [0, 0]])
        y = convolve_channels(wide, tf.convert_to_tensor(self.kernel), 1, "VALID")
        y = self.norm(y, held, training)
        return tf.cast(activate_kept(y, self.activation, held[:, :, tf.newaxis], 1.0), x.dtype)
