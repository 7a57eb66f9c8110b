"""The networks before and after the recurrent layers of Tacotron 2: prenet, postnet, and from mel to magnitude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.activations import Activation, resolve_activation
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.block import BlockSettings
from open_seq2seq.parts.dropout import keep_mask, keep_scale
from open_seq2seq.parts.randomness import example_uniforms
from open_seq2seq.parts.tacotron.layers import Dense, make_convolution_block


class Prenet(Module):
    """Dense layers with dropout in and outside of training.

    Outside of training, the same elements are dropped in all examples, so that a text sounds the same in any batch: the
    random numbers depend only on the seed and the step.

    Args:
      input_size: number of features of a frame.
      units: number of units of each layer.
      count: number of layers.
      activation: activation after each layer, or None.
      rate: dropout rate after each layer.
      seed: seed of the dropout outside of training.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
    """

    def __init__(self, input_size: int, units: int, count: int, activation: Activation | None, rate: float, seed: int,
                 initializer: Any, regularizer: Any) -> None:
        super().__init__(name="prenet")
        self._activation, self._rate, self._seed, self._units = activation, rate, seed, units
        self.layers = [Dense(input_size if number == 0 else units, units, initializer, regularizer)
                       for number in range(count)]

    def __call__(self, x: tf.Tensor, steps: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns ``[time, batch, units]``.

        Args:
          x: frames ``[time, batch, features]`` in the compute dtype.
          steps: numbers of the steps, ``[time]`` int32.
          training: whether the dropout masks are drawn with ``parts.randomness.next_seed``.
        """
        for number, layer in enumerate(self.layers):
            y = layer(x)
            x = y if self._activation is None else self._activation(y)
            if self._rate > 0.0:
                keep = keep_mask(tf.shape(x), self._rate) if training else self._keep(steps, number)
                x = tf.where(keep, x * tf.cast(keep_scale(self._rate), x.dtype), tf.zeros([], x.dtype))
        return x

    def _keep(self, steps: tf.Tensor, number: int) -> tf.Tensor:
        """Returns which elements a layer keeps, ``[time, 1, units]``."""
        steps = tf.cast(steps, tf.int64)
        uniforms = example_uniforms(self._seed, tf.zeros_like(steps), steps, self._units, number)
        return (uniforms >= self._rate)[:, tf.newaxis]


class Postnet(Module):
    """Convolutions over time whose result is added to a spectrogram.

    Args:
      layers: the checked layers; ``num_channels`` -1 stands for the number of features.
      num_features: number of features of a frame.
      dropout: dropout rate after each layer.
      settings: settings of the convolutions except the activation.
      path: path of the decoder's parameters in the config, for messages.
    """

    def __init__(self, layers: Sequence[Mapping[str, Any]], num_features: int, dropout: float,
                 settings: BlockSettings, path: str) -> None:
        super().__init__(name="postnet")
        self.blocks, size = [], num_features
        for number, layer in enumerate(layers):
            activation = resolve_activation(layer["activation_fn"],
                                            f"{path}/postnet_conv_layers/{number}/activation_fn")
            channels = num_features if layer["num_channels"] == -1 else layer["num_channels"]
            self.blocks.append(make_convolution_block({**layer, "num_channels": channels}, size, dropout,
                                                      settings._replace(activation=activation)))
            size = channels

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns ``[batch, time, num_features]`` for spectrograms ``[batch, time, num_features]``."""
        for block in self.blocks:
            x, lengths = block(x, lengths, training=training)
        return x


class MagnitudeNet(Module):
    """Convolutions from mel features to magnitudes.

    Args:
      num_features: number of mel features.
      num_bins: number of magnitudes of a frame.
      exponential: whether the exponential function is applied before the last layer.
      settings: settings of the convolutions.
    """

    def __init__(self, num_features: int, num_bins: int, exponential: bool, settings: BlockSettings) -> None:
        super().__init__(name="magnitude_net")
        self._exponential = exponential
        layer = {"kernel_size": [4], "stride": [1], "padding": "SAME"}
        self.blocks, size = [], num_features
        for channels in (256, 512):
            self.blocks.append(make_convolution_block({**layer, "num_channels": channels}, size, 0.0, settings))
            size = channels
        self.projection = Dense(size, num_bins, settings.initializer, settings.regularizer, False)

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns magnitudes ``[batch, time, num_bins]`` for mel spectrograms ``[batch, time, num_features]``."""
        for block in self.blocks:
            x, lengths = block(x, lengths, training=training)
        return self.projection(tf.exp(x) if self._exponential else x)
