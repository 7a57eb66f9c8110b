"""Computes the initial states of a recurrent decoder from the final states of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.component import Module
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.cells import product
from open_seq2seq.utils.errors import ConfigError

Sizes = Sequence[Sequence[int]]


def encoder_state_sizes(model: Any, path: str) -> Sizes:
    """Makes a model's encoder return its final states, and returns the sizes of these states.

    Args:
      model: the model, whose encoder is already built.
      path: path of the parameter that requires the states, for messages.

    Returns:
      For each layer of the encoder, the number of columns of each of its states.

    Raises:
      ConfigError: the encoder has no states.
    """
    encoder: Any = getattr(model, "encoder", None)
    if not hasattr(encoder, "returns_state"):
        raise ConfigError([f"'{path}' needs the final states of a recurrent encoder, but {type(encoder).__name__} has "
                           "none: remove this parameter, or choose a recurrent encoder."])
    encoder.returns_state = True
    return encoder.state_sizes


class StateBridge(Module):
    """Copies the states of an encoder to a decoder, or maps them with a linear layer (``dense``).

    The last layer of the decoder gets the states of the encoder's last layer, and so on downwards. If the decoder
    has more layers, its lowest layers get the states of the encoder's first layer.

    Args:
      kind: ``copy`` or ``dense``.
      source: number of columns of each state of each layer of the encoder.
      target: number of columns of each state of each layer of the decoder.
      path: path of the parameter that gives ``kind``, for messages.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.

    Raises:
      ConfigError: states of different sizes are to be copied.
    """

    def __init__(self, kind: str, source: Sizes, target: Sizes, path: str, initializer: Any = None,
                 regularizer: Any = None) -> None:
        super().__init__(name="bridge")
        self._target = [list(sizes) for sizes in target]
        self._layers = [max(0, len(source) - len(target) + number) for number in range(len(target))]
        chosen = [list(source[number]) for number in self._layers]
        if kind == "copy" and chosen != self._target:
            raise ConfigError([f"'{path}' is copy, but the encoder's states have the sizes {chosen} and the decoder's "
                               f"{self._target}: make the sizes equal, or set this parameter to dense."])
        self.kernels = [] if kind == "copy" else [
            self.weight([sum(before), sum(after)], initializer, regularizer=regularizer)
            for before, after in zip(chosen, self._target, strict=True)]
        self.biases = [self.weight([kernel.shape[1]], "zeros") for kernel in self.kernels]

    def __call__(self, states: Sequence[Sequence[tf.Tensor]], dtype: tf.DType) -> list[list[tf.Tensor]]:
        """Returns the initial states of each layer of the decoder, ``[batch, size]`` FP32.

        Args:
          states: the final states of each layer of the encoder, ``[batch, size]`` FP32.
          dtype: dtype of the products.
        """
        chosen = [list(states[number]) for number in self._layers]
        if not self.kernels:
            return chosen
        return [tf.split(product(tf.concat(own, -1), cast_weight(kernel, dtype)) + bias, sizes, axis=-1)
                for own, kernel, bias, sizes in zip(chosen, self.kernels, self.biases, self._target, strict=True)]
