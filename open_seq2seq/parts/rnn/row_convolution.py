"""Row convolution, by which a unidirectional network can use a few future frames."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.activations import Activation, activate_kept
from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.convolution import Window
from open_seq2seq.parts.conv_blocks.primitives import convolve_channels


class RowConvolution(Module):
    """Depthwise convolution over time, batch norm and activation, computed in FP32.

    See Amodei et al. 2015, Deep Speech 2, https://arxiv.org/abs/1512.02595, section 3.7. As in NVIDIA's
    OpenSeq2Seq, the window is centred on each frame; in the paper, it begins at the frame.

    Args:
      channels: number of channels of the input and the output.
      width: width of the filters, in frames.
      activation: the activation, or None.
      momentum: fraction of batch norm's old moving statistics that is kept at each step.
      epsilon: number that batch norm adds to the variance.
      initializer: initialiser of the filters.
      regularizer: regulariser of the filters and of batch norm's scale.
    """

    def __init__(self, channels: int, width: int, activation: Activation | None, momentum: float, epsilon: float,
                 initializer: Any = None, regularizer: Any = None) -> None:
        super().__init__(name="row_convolution")
        self.window = Window(width)
        self.activation = activation
        self.kernel = self.weight([width, channels, 1], initializer, regularizer=regularizer)
        self.norm = BatchNorm(channels, momentum, epsilon, regularizer=regularizer)

    def __call__(self, x: tf.Tensor, held: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns ``[batch, time, channels]`` in the dtype of ``x``, 0 at padding.

        Args:
          x: ``[batch, time, channels]``, 0 at padding.
          held: boolean ``[batch, time]``, False at padding.
          training: whether batch norm uses the batch statistics instead of the moving ones.
        """
        wide = tf.pad(tf.cast(x, tf.float32), [[0, 0], self.window.pads(tf.shape(x)[1]), [0, 0]])
        y = convolve_channels(wide, tf.convert_to_tensor(self.kernel), 1, "VALID")
        y = self.norm(y, held, training)
        return tf.cast(activate_kept(y, self.activation, held[:, :, tf.newaxis], 1.0), x.dtype)
